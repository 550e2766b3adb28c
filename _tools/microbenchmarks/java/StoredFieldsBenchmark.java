package clustermetrics.micro;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.lucene.codecs.StoredFieldsReader;
import org.apache.lucene.index.CodecReader;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.FieldInfo;
import org.apache.lucene.index.StoredFieldVisitor;
import org.apache.lucene.store.MMapDirectory;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/**
 * Reading the source of a share of the documents, the first values of the corpus of texts: by the reader that merges
 * use, which decompresses whole blocks in sequence, or by random access. A reader is opened anew for each page, as
 * ES|QL does.
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MICROSECONDS)
public class StoredFieldsBenchmark {
    /** Documents of a page: those of the published profile, 1,000,000 in 222 pages. */
    private static final int PAGE = 4505;

    @Param({ "sequential", "random" })
    public String access;
    @Param({ "1000", "100", "50", "20", "10", "5" })
    public int permille;
    @Param({ "value", "log-line" })
    public String form;

    private DirectoryReader reader;
    private CodecReader segment;
    private int[] selected;

    @Setup
    public void open() throws IOException {
        Input input = Input.given();
        reader = DirectoryReader.open(new MMapDirectory(Indices.folder(input, "texts-" + form)));
        segment = (CodecReader) Indices.only(reader).reader();
        char[] values = input.textOrder();
        int most = permille * input.textValues / 1000;
        int[] found = new int[values.length];
        int count = 0;
        for (int doc = 0; doc < values.length; doc++) {
            if (values[doc] <= most) {
                found[count++] = doc;
            }
        }
        selected = java.util.Arrays.copyOf(found, count);
    }

    @TearDown
    public void close() throws IOException {
        reader.close();
    }

    @Benchmark
    public long load() throws IOException {
        Source source = new Source();
        StoredFieldsReader fields = null;
        for (int i = 0; i < selected.length; i++) {
            if (i % PAGE == 0) {
                fields = access.equals("sequential") ? segment.getFieldsReader().getMergeInstance() : segment.getFieldsReader().clone();
            }
            fields.document(selected[i], source);
        }
        return source.bytes;
    }

    private static final class Source extends StoredFieldVisitor {
        long bytes;

        @Override
        public Status needsField(FieldInfo field) {
            return field.name.equals("_source") ? Status.YES : Status.NO;
        }

        @Override
        public void binaryField(FieldInfo field, byte[] value) {
            bytes += value.length;
        }
    }
}
