package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.apache.lucene.search.Query;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** The index of metrics, open while a benchmark runs. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public abstract class Segment {
    Metrics index;

    @Setup
    public void open() throws IOException {
        index = new Metrics(cached());
    }

    @TearDown
    public void close() throws IOException {
        index.close();
    }

    /** Whether filters are taken from the query cache. */
    boolean cached() {
        return false;
    }

    /** A query for each search of a coverage. */
    Query[] queries(IntFunction<Query> ofNode) {
        return IntStream.range(0, index.input.nodes).mapToObj(ofNode).toArray(Query[]::new);
    }
}
