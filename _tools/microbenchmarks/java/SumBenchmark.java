package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.elasticsearch.search.aggregations.metrics.CompensatedSum;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;

/** What a sum does with a field in a coverage: the server's compensated summation over the values of each node. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class SumBenchmark {
    @Param({ "cpu", "mem", "net" })
    public String field;
    /** Of each search; 0 for all that a node has in an epoch. */
    @Param("0")
    public int documents;

    private double[][] searches;

    @Setup
    public void read() throws IOException {
        searches = Input.given().searches(field, documents);
    }

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
