package clustermetrics.micro;

import java.io.IOException;
import org.apache.lucene.search.Query;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;

/** The filters of a coverage: the term on each node, the point of the epoch as often, both together, and both from the
 * query cache. What they match is counted one by one. */
public class FilterBenchmark extends Segment {
    @Param({ "term", "point", "conjunction", "cached" })
    public String filter;

    private Query[] queries;

    @Override
    boolean cached() {
        return filter.equals("cached");
    }

    @Override
    public void open() throws IOException {
        super.open();
        queries = queries(switch (filter) {
            case "term" -> Metrics::node;
            case "point" -> node -> Metrics.epoch();
            case "conjunction", "cached" -> Metrics::filter;
            default -> throw new IllegalArgumentException("no filter is called [" + filter + "]");
        });
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
