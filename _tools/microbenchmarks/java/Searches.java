package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;

/** The values of a field that each search of a coverage finds: what a loop over values alone is fed. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public abstract class Searches {
    @Param({ "cpu", "mem", "net" })
    public String field;
    /** Of each search; 0 for all that a node has in an epoch. */
    @Param("0")
    public int documents;

    double[][] searches;

    @Setup
    public void read() throws IOException {
        searches = Input.given().searches(field, documents);
    }
}
