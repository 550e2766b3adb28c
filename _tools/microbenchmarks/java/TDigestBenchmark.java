package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.elasticsearch.common.breaker.NoopCircuitBreaker;
import org.elasticsearch.search.aggregations.metrics.MemoryTrackingTDigestArrays;
import org.elasticsearch.tdigest.TDigest;
import org.elasticsearch.tdigest.arrays.TDigestArrays;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;

/**
 * What percentiles by t-digest do with a field in a coverage: for each node its values into a fresh digest, then four
 * quantiles. The digests are made as the server makes them: hybrid by default, AVL for high_accuracy; merging is what a
 * hybrid one turns into.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class TDigestBenchmark {
    static final double[] QUANTILES = { 0, 0.5, 0.9, 1 };

    @Param({ "cpu", "mem", "net" })
    public String field;
    @Param({ "hybrid", "merging", "avl" })
    public String digest;
    @Param("100")
    public double compression;
    /** Of each search; 0 for all that a node has in an epoch. */
    @Param("0")
    public int documents;

    private double[][] searches;
    private final TDigestArrays arrays = new MemoryTrackingTDigestArrays(new NoopCircuitBreaker("micro"));

    @Setup
    public void read() throws IOException {
        searches = Input.given().searches(field, documents);
    }

    static TDigest made(String digest, TDigestArrays arrays, double compression) {
        return switch (digest) {
            case "hybrid" -> TDigest.createHybridDigest(arrays, compression);
            case "merging" -> TDigest.createMergingDigest(arrays, compression);
            case "avl" -> TDigest.createAvlTreeDigest(arrays, compression);
            default -> throw new IllegalArgumentException("no digest is called [" + digest + "]");
        };
    }

    @Benchmark
    public void coverage(Blackhole hole) {
        for (double[] values : searches) {
            TDigest state = made(digest, arrays, compression);
            for (double value : values) {
                state.add(value, 1);
            }
            for (double quantile : QUANTILES) {
                hole.consume(state.quantile(quantile));
            }
        }
    }
}
