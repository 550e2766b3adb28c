package clustermetrics.micro;

import org.elasticsearch.search.aggregations.metrics.CompensatedSum;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.infra.Blackhole;

/** What a sum does with a field in a coverage: the server's compensated summation over the values of each node. */
public class SumBenchmark extends Searches {
    @Benchmark
    public void coverage(Blackhole hole) {
        for (double[] values : searches) {
            CompensatedSum sum = new CompensatedSum(0, 0);
            for (double value : values) {
                sum.add(value);
            }
            hole.consume(sum.value());
        }
    }
}
