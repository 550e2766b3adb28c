package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.HdrHistogram.DoubleHistogram;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;

/** What percentiles by HDR do with a field in a coverage: for each node its values into a histogram that grows by
 * itself, then four percentiles. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class HdrBenchmark {
    @Param({ "cpu", "mem", "net" })
    public String field;
    @Param({ "2", "3", "4", "5" })
    public int digits;
    /** Of each search; 0 for all that a node has in an epoch. */
    @Param("0")
    public int documents;

    private double[][] searches;

    @Setup
    public void read() throws IOException {
        searches = Input.given().searches(field, documents);
    }

    static DoubleHistogram made(int digits) {
        DoubleHistogram state = new DoubleHistogram(digits);
        state.setAutoResize(true);
        return state;
    }

    @Benchmark
    public void coverage(Blackhole hole) {
        for (double[] values : searches) {
            DoubleHistogram state = made(digits);
            for (double value : values) {
                state.recordValue(value);
            }
            for (double quantile : TDigestBenchmark.QUANTILES) {
                hole.consume(state.getValueAtPercentile(100 * quantile));
            }
        }
    }
}
