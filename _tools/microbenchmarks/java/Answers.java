package clustermetrics.micro;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import org.HdrHistogram.DoubleHistogram;
import org.apache.lucene.index.NumericDocValues;
import org.apache.lucene.search.LeafCollector;
import org.apache.lucene.search.Scorable;
import org.elasticsearch.common.breaker.NoopCircuitBreaker;
import org.elasticsearch.search.aggregations.metrics.CompensatedSum;
import org.elasticsearch.search.aggregations.metrics.MemoryTrackingTDigestArrays;
import org.elasticsearch.tdigest.TDigest;

/**
 * Prints what the benchmarks' own pieces answer, a line for each node and field: node, field, documents by the filter,
 * sum by index and by input, and the greatest value by t-digest and by HDR. Tests hold them against the exact answers.
 */
final class Answers {
    private Answers() {}

    public static void main(String[] given) throws IOException {
        System.setProperty(Input.FOLDER, Path.of(given[0]).toString());
        for (boolean cached : new boolean[] { false, true }) {
            try (Metrics index = new Metrics(cached)) {
                for (String field : Input.FIELDS) {
                    double[][] searches = index.input.searches(field, 0);
                    for (int node = 0; node < searches.length; node++) {
                        print(index, field, node, searches[node]);
                    }
                }
            }
        }
    }

    private static void print(Metrics index, String field, int node, double[] values) throws IOException {
        CompensatedSum sum = new CompensatedSum(0, 0);
        TDigest digest = TDigestBenchmark.made("hybrid", new MemoryTrackingTDigestArrays(new NoopCircuitBreaker("micro")), 100);
        DoubleHistogram histogram = HdrBenchmark.made(3);
        NumericDocValues docValues = DocValuesBenchmark.values(index, field);
        int[] count = { 0 };
        index.search(Metrics.filter(node), new LeafCollector() {
            @Override
            public void setScorer(Scorable scorer) {}

            @Override
            public void collect(int doc) throws IOException {
                count[0]++;
                docValues.advanceExact(doc);
                double value = DocValuesBenchmark.read(docValues);
                sum.add(value);
                digest.add(value, 1);
                histogram.recordValue(value);
            }
        });
        System.out.printf(
            Locale.ROOT,
            "%s %s %d %.9g %.9g %.9g %.9g%n",
            Input.nodeName(node),
            field,
            count[0],
            sum.value(),
            Arrays.stream(values).sum(),
            digest.quantile(1),
            histogram.getValueAtPercentile(100)
        );
    }
}
