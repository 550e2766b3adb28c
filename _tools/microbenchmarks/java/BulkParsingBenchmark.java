package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.elasticsearch.xcontent.XContent;
import org.elasticsearch.xcontent.XContentParser;
import org.elasticsearch.xcontent.XContentParserConfiguration;
import org.elasticsearch.xcontent.XContentType;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;

/** Parsing a bulk body by the server's own parsers: the action before each row, and all values of each row. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class BulkParsingBenchmark {
    @Param({ "json", "smile-32", "smile-64" })
    public String encoding;

    private byte[] body;
    private XContent format;

    @Setup
    public void read() throws IOException {
        Input input = Input.given();
        body = input.bytes("bulk-" + encoding + ".bin");
        format = (encoding.equals("json") ? XContentType.JSON : XContentType.SMILE).xContent();
    }

    @Benchmark
    public int actions(Blackhole hole) throws IOException {
        return items(hole, 0);
    }

    @Benchmark
    public int rows(Blackhole hole) throws IOException {
        return items(hole, 1);
    }

    /** Parses every other item of the body, and only looks for the end of the others. */
    private int items(Blackhole hole, int parity) throws IOException {
        byte separator = format.bulkSeparator();
        int items = 0;
        for (int start = 0, end; start < body.length; start = end + 1) {
            end = start;
            while (body[end] != separator) {
                end++;
            }
            if (items++ % 2 == parity) {
                item(start, end - start, hole);
            }
        }
        return items;
    }

    private void item(int start, int length, Blackhole hole) throws IOException {
        try (XContentParser parser = format.createParser(XContentParserConfiguration.EMPTY, body, start, length)) {
            XContentParser.Token token;
            while ((token = parser.nextToken()) != null) {
                switch (token) {
                    case FIELD_NAME -> hole.consume(parser.currentName());
                    case VALUE_STRING -> hole.consume(parser.text());
                    case VALUE_NUMBER -> hole.consume(parser.numberType() == XContentParser.NumberType.INT ? parser.longValue() : parser.doubleValue());
                    default -> {}
                }
            }
        }
    }
}
