package clustermetrics.micro;

import java.io.IOException;
import org.apache.lucene.index.DocValues;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.util.NumericUtils;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;

/** Reading the values of a field, all documents of an epoch once: in order, or as the searches of a coverage do, the
 * documents of each node after those of another. */
public class DocValuesBenchmark extends Segment {
    @Param({ "cpu", "mem", "net" })
    public String field;

    static NumericDocValues values(Metrics index, String field) throws IOException {
        return DocValues.unwrapSingleton(index.segment().getSortedNumericDocValues(field));
    }

    static double read(NumericDocValues values) throws IOException {
        return NumericUtils.sortableIntToFloat((int) values.longValue());
    }

    @Benchmark
    public double all() throws IOException {
        return summed(0, 1);
    }

    @Benchmark
    public double oneInNodes() throws IOException {
        double sum = 0;
        for (int node = 0; node < index.input.nodes; node++) {
            sum += summed(node, index.input.nodes);
        }
        return sum;
    }

    private double summed(int first, int step) throws IOException {
        NumericDocValues values = values(index, field);
        double sum = 0;
        for (int doc = first; doc < index.input.rows; doc += step) {
            if (values.advanceExact(doc)) {
                sum += read(values);
            }
        }
        return sum;
    }
}
