package clustermetrics.micro;

import org.elasticsearch.common.breaker.NoopCircuitBreaker;
import org.elasticsearch.search.aggregations.metrics.MemoryTrackingTDigestArrays;
import org.elasticsearch.tdigest.TDigest;
import org.elasticsearch.tdigest.arrays.TDigestArrays;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.infra.Blackhole;

/**
 * What percentiles by t-digest do with a field in a coverage: for each node its values into a fresh digest, then four
 * quantiles. The digests are made as the server makes them: hybrid by default, AVL for high_accuracy; merging is what a
 * hybrid one turns into.
 */
public class TDigestBenchmark extends Searches {
    static final double[] QUANTILES = { 0, 0.5, 0.9, 1 };

    @Param({ "hybrid", "merging", "avl" })
    public String digest;
    @Param("100")
    public double compression;

    private final TDigestArrays arrays = new MemoryTrackingTDigestArrays(new NoopCircuitBreaker("micro"));

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
