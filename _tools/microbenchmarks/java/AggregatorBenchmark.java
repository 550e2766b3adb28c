package clustermetrics.micro;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.HdrHistogram.DoubleHistogram;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.search.ScoreMode;
import org.elasticsearch.common.breaker.NoopCircuitBreaker;
import org.elasticsearch.common.util.BigArrays;
import org.elasticsearch.common.util.DoubleArray;
import org.elasticsearch.common.util.ObjectArray;
import org.elasticsearch.search.aggregations.AggregationExecutionContext;
import org.elasticsearch.search.aggregations.BucketCollector;
import org.elasticsearch.search.aggregations.LeafBucketCollector;
import org.elasticsearch.search.aggregations.LeafBucketCollectorBase;
import org.elasticsearch.search.aggregations.MultiBucketCollector;
import org.elasticsearch.search.aggregations.metrics.CompensatedSum;
import org.elasticsearch.search.aggregations.metrics.TDigestExecutionHint;
import org.elasticsearch.search.aggregations.metrics.TDigestState;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.infra.Blackhole;

/**
 * The aggregators around the loops: a coverage of the production query in this JVM, without requests, phases and
 * reduction. Documents come from the filter, go through the server's own multi-collector to one collector for each
 * aggregation, which finds its state by bucket in the server's arrays, reads the value and adds it to the server's own
 * state.
 */
public class AggregatorBenchmark extends Segment {
    @Param({ "sums", "tdigest", "hdr", "sums+tdigest", "sums+hdr" })
    public String aggregations;

    private static final int DIGITS = 3;
    private static final double COMPRESSION = 100;
    private final BigArrays bigArrays = BigArrays.NON_RECYCLING_INSTANCE;

    @Benchmark
    public void coverage(Blackhole hole) throws IOException {
        AggregationExecutionContext context = new AggregationExecutionContext(index.leaf, null, null, null);
        for (int node = 0; node < index.input.nodes; node++) {
            List<Aggregator> found = new ArrayList<>();
            for (String field : Input.FIELDS) {
                for (String kind : aggregations.split("\\+")) {
                    found.add(aggregator(kind, field));
                }
            }
            BucketCollector all = MultiBucketCollector.wrap(true, found);
            all.preCollection();
            index.search(Metrics.filter(node), all.getLeafCollector(context));
            all.postCollection();
            found.forEach(aggregator -> aggregator.result(hole::consume));
        }
    }

    private Aggregator aggregator(String kind, String field) {
        return switch (kind) {
            case "sums" -> new Sum(field);
            case "tdigest" -> new TDigest(field);
            case "hdr" -> new Hdr(field);
            default -> throw new IllegalArgumentException("no aggregation is called [" + kind + "]");
        };
    }

    private abstract class Aggregator extends BucketCollector {
        private final String field;

        Aggregator(String field) {
            this.field = field;
        }

        abstract LeafBucketCollector collector(NumericDocValues values);

        abstract void result(Consumer<Double> read);

        @Override
        public LeafBucketCollector getLeafCollector(AggregationExecutionContext context) throws IOException {
            return collector(DocValuesBenchmark.values(index, field));
        }

        @Override
        public void preCollection() {}

        @Override
        public void postCollection() {}

        @Override
        public ScoreMode scoreMode() {
            return ScoreMode.COMPLETE_NO_SCORES;
        }
    }

    private final class Sum extends Aggregator {
        private DoubleArray sums = bigArrays.newDoubleArray(1, true);
        private DoubleArray compensations = bigArrays.newDoubleArray(1, true);

        Sum(String field) {
            super(field);
        }

        @Override
        LeafBucketCollector collector(NumericDocValues values) {
            CompensatedSum summation = new CompensatedSum(0, 0);
            return new LeafBucketCollectorBase(LeafBucketCollector.NO_OP_COLLECTOR, null) {
                @Override
                public void collect(int doc, long bucket) throws IOException {
                    if (values.advanceExact(doc)) {
                        if (bucket >= sums.size()) {
                            sums = bigArrays.grow(sums, bucket + 1);
                            compensations = bigArrays.grow(compensations, bucket + 1);
                        }
                        summation.reset(sums.get(bucket), compensations.get(bucket));
                        summation.add(DocValuesBenchmark.read(values));
                        compensations.set(bucket, summation.delta());
                        sums.set(bucket, summation.value());
                    }
                }
            };
        }

        @Override
        void result(Consumer<Double> read) {
            read.accept(sums.get(0));
        }
    }

    /** What percentiles by t-digest and by HDR share: a state for each bucket, to which values are added. */
    private abstract class Percentiles<S> extends Aggregator {
        private ObjectArray<S> states = bigArrays.newObjectArray(1);

        Percentiles(String field) {
            super(field);
        }

        abstract S made();

        abstract void add(S state, double value);

        abstract double read(S state, double quantile);

        @Override
        LeafBucketCollector collector(NumericDocValues values) {
            return new LeafBucketCollectorBase(LeafBucketCollector.NO_OP_COLLECTOR, null) {
                @Override
                public void collect(int doc, long bucket) throws IOException {
                    if (values.advanceExact(doc)) {
                        add(state(bucket), DocValuesBenchmark.read(values));
                    }
                }
            };
        }

        private S state(long bucket) {
            states = bigArrays.grow(states, bucket + 1);
            S state = states.get(bucket);
            if (state == null) {
                state = made();
                states.set(bucket, state);
            }
            return state;
        }

        @Override
        void result(Consumer<Double> read) {
            for (double quantile : TDigestBenchmark.QUANTILES) {
                read.accept(read(states.get(0), quantile));
            }
        }
    }

    private final class TDigest extends Percentiles<TDigestState> {
        TDigest(String field) {
            super(field);
        }

        @Override
        TDigestState made() {
            return TDigestState.create(new NoopCircuitBreaker("micro"), COMPRESSION, TDigestExecutionHint.DEFAULT);
        }

        @Override
        void add(TDigestState state, double value) {
            state.add(value);
        }

        @Override
        double read(TDigestState state, double quantile) {
            return state.quantile(quantile);
        }
    }

    private final class Hdr extends Percentiles<DoubleHistogram> {
        Hdr(String field) {
            super(field);
        }

        @Override
        DoubleHistogram made() {
            return HdrBenchmark.made(DIGITS);
        }

        @Override
        void add(DoubleHistogram state, double value) {
            state.recordValue(value);
        }

        @Override
        double read(DoubleHistogram state, double quantile) {
            return state.getValueAtPercentile(100 * quantile);
        }
    }
}
