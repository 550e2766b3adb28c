package clustermetrics.micro;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.HdrHistogram.DoubleHistogram;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.index.SortedNumericDocValues;
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
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.infra.Blackhole;

/**
 * The aggregators around the loops: a coverage of the production query in this JVM, without requests, phases and
 * reduction. Documents come from the filter, go through the server's own multi-collector to one collector for each
 * aggregation, which finds its state by bucket in the server's arrays, reads the value and adds it to the server's own
 * state.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class AggregatorBenchmark {
    @Param({ "sums", "tdigest", "hdr", "sums+tdigest", "sums+hdr" })
    public String aggregations;

    private static final int DIGITS = 3;
    private static final double COMPRESSION = 100;
    private final BigArrays bigArrays = BigArrays.NON_RECYCLING_INSTANCE;
    private Metrics index;

    @Setup
    public void open() throws IOException {
        index = new Metrics(false);
    }

    @TearDown
    public void close() throws IOException {
        index.close();
    }

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

    private final class TDigest extends Aggregator {
        private ObjectArray<TDigestState> states = bigArrays.newObjectArray(1);

        TDigest(String field) {
            super(field);
        }

        @Override
        LeafBucketCollector collector(NumericDocValues values) {
            return new LeafBucketCollectorBase(LeafBucketCollector.NO_OP_COLLECTOR, null) {
                @Override
                public void collect(int doc, long bucket) throws IOException {
                    if (values.advanceExact(doc)) {
                        state(bucket).add(DocValuesBenchmark.read(values));
                    }
                }
            };
        }

        private TDigestState state(long bucket) {
            states = bigArrays.grow(states, bucket + 1);
            TDigestState state = states.get(bucket);
            if (state == null) {
                state = TDigestState.create(new NoopCircuitBreaker("micro"), COMPRESSION, TDigestExecutionHint.DEFAULT);
                states.set(bucket, state);
            }
            return state;
        }

        @Override
        void result(Consumer<Double> read) {
            for (double quantile : TDigestBenchmark.QUANTILES) {
                read.accept(states.get(0).quantile(quantile));
            }
        }
    }

    private final class Hdr extends Aggregator {
        private ObjectArray<DoubleHistogram> states = bigArrays.newObjectArray(1);

        Hdr(String field) {
            super(field);
        }

        @Override
        LeafBucketCollector collector(NumericDocValues values) {
            return new LeafBucketCollectorBase(LeafBucketCollector.NO_OP_COLLECTOR, null) {
                @Override
                public void collect(int doc, long bucket) throws IOException {
                    if (values.advanceExact(doc)) {
                        state(bucket).recordValue(DocValuesBenchmark.read(values));
                    }
                }
            };
        }

        private DoubleHistogram state(long bucket) {
            states = bigArrays.grow(states, bucket + 1);
            DoubleHistogram state = states.get(bucket);
            if (state == null) {
                state = HdrBenchmark.made(DIGITS);
                states.set(bucket, state);
            }
            return state;
        }

        @Override
        void result(Consumer<Double> read) {
            for (double quantile : TDigestBenchmark.QUANTILES) {
                read.accept(states.get(0).getValueAtPercentile(100 * quantile));
            }
        }
    }
}
