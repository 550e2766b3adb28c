package clustermetrics.micro;

import org.HdrHistogram.DoubleHistogram;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.infra.Blackhole;

/** What percentiles by HDR do with a field in a coverage: for each node its values into a histogram that grows by
 * itself, then four percentiles. */
public class HdrBenchmark extends Searches {
    @Param({ "2", "3", "4", "5" })
    public int digits;

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
