package clustermetrics.micro;

import java.io.IOException;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.search.LeafCollector;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.Scorable;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;

/** A coverage that reads one field of the documents as its filter finds them, computed or from the query cache. */
public class FilteredValuesBenchmark extends Segment {
    @Param({ "conjunction", "cached" })
    public String filter;
    @Param("cpu")
    public String field;

    private Query[] queries;

    @Override
    boolean cached() {
        return filter.equals("cached");
    }

    @Override
    public void open() throws IOException {
        super.open();
        queries = queries(Metrics::filter);
    }

    @Benchmark
    public double coverage() throws IOException {
        Sum sum = new Sum();
        for (Query query : queries) {
            sum.values = DocValuesBenchmark.values(index, field);
            index.search(query, sum);
        }
        return sum.sum;
    }

    private static final class Sum implements LeafCollector {
        NumericDocValues values;
        double sum;

        @Override
        public void setScorer(Scorable scorer) {}

        @Override
        public void collect(int doc) throws IOException {
            if (values.advanceExact(doc)) {
                sum += DocValuesBenchmark.read(values);
            }
        }
    }
}
