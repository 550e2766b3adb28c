package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.search.LeafCollector;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.Scorable;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** A coverage that reads one field of the documents as its filter finds them, computed or from the query cache. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class FilteredValuesBenchmark {
    @Param({ "conjunction", "cached" })
    public String filter;
    @Param("cpu")
    public String field;

    private Metrics index;
    private Query[] queries;

    @Setup
    public void open() throws IOException {
        index = new Metrics(filter.equals("cached"));
        queries = new Query[index.input.nodes];
        for (int node = 0; node < queries.length; node++) {
            queries[node] = Metrics.filter(node);
        }
    }

    @TearDown
    public void close() throws IOException {
        index.close();
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
