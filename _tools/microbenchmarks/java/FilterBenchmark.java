package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.lucene.search.Query;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** The filters of a coverage: the term on each node, the point of the epoch as often, both together, and both from the
 * query cache. What they match is counted one by one. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class FilterBenchmark {
    @Param({ "term", "point", "conjunction", "cached" })
    public String filter;

    private Metrics index;
    private Query[] queries;

    @Setup
    public void open() throws IOException {
        index = new Metrics(filter.equals("cached"));
        queries = new Query[index.input.nodes];
        for (int node = 0; node < queries.length; node++) {
            queries[node] = switch (filter) {
                case "term" -> Metrics.node(node);
                case "point" -> Metrics.epoch();
                case "conjunction", "cached" -> Metrics.filter(node);
                default -> throw new IllegalArgumentException("no filter is called [" + filter + "]");
            };
        }
    }

    @TearDown
    public void close() throws IOException {
        index.close();
    }

    @Benchmark
    public int visit() throws IOException {
        Metrics.Visits visits = new Metrics.Visits();
        for (Query query : queries) {
            index.search(query, visits);
        }
        return visits.count;
    }
}
