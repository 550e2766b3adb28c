package clustermetrics.micro;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Random;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.document.LongPoint;
import org.apache.lucene.document.SortedNumericDocValuesField;
import org.apache.lucene.document.StoredField;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexReader;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.store.Directory;
import org.apache.lucene.store.MMapDirectory;
import org.apache.lucene.util.BytesRef;
import org.apache.lucene.util.IOUtils;
import org.apache.lucene.util.NumericUtils;
import org.apache.lucene.util.Version;

/**
 * Makes the indices that the benchmarks read, before any of them runs: the fields that they use, as the mapping of the
 * track has them, in one segment and in the order of the corpus, by Lucene's default codec.
 */
final class Indices {
    static final String[] FORMS = { "value", "log-line" };
    private static final int ID_BYTES = 15;

    private Indices() {}

    interface Source {
        Document next(int doc) throws IOException;
    }

    static Path folder(Input input, String name) {
        return input.folder.resolve("index-" + Version.LATEST + "-" + name);
    }

    /** The one segment of an index. */
    static LeafReaderContext only(IndexReader reader) {
        if (reader.leaves().size() != 1) {
            throw new IllegalStateException(reader.leaves().size() + " segments in place of one");
        }
        return reader.leaves().get(0);
    }

    public static void main(String[] given) throws IOException {
        Input input = new Input(Path.of(given[0]));
        make(folder(input, "metrics"), input.rows * input.epochs, metrics(input));
        for (String form : FORMS) {
            try (BufferedReader lines = Files.newBufferedReader(input.folder.resolve("texts-" + form + ".json"))) {
                make(folder(input, "texts-" + form), input.texts, texts(lines));
            }
        }
    }

    private static void make(Path folder, int documents, Source source) throws IOException {
        if (Files.isDirectory(folder)) {
            return;
        }
        Path part = folder.resolveSibling(folder.getFileName() + ".part");
        if (Files.isDirectory(part)) {
            IOUtils.rm(part);
        }
        IndexWriterConfig config = new IndexWriterConfig().setRAMBufferSizeMB(256).setUseCompoundFile(false);
        try (Directory directory = new MMapDirectory(part); IndexWriter writer = new IndexWriter(directory, config)) {
            for (int doc = 0; doc < documents; doc++) {
                writer.addDocument(source.next(doc));
            }
            writer.forceMerge(1);
        }
        Files.move(part, folder, StandardCopyOption.ATOMIC_MOVE);
    }

    private static Source metrics(Input input) throws IOException {
        FieldType keyword = new FieldType();
        keyword.setIndexOptions(IndexOptions.DOCS);
        keyword.setOmitNorms(true);
        keyword.setTokenized(false);
        keyword.freeze();
        Field node = new Field("node", "", keyword);
        LongPoint epoch = new LongPoint("epoch", 0);
        SortedNumericDocValuesField[] fields = new SortedNumericDocValuesField[Input.FIELDS.length];
        float[][] values = new float[Input.FIELDS.length][];
        Document document = new Document();
        document.add(node);
        document.add(epoch);
        for (int f = 0; f < fields.length; f++) {
            fields[f] = new SortedNumericDocValuesField(Input.FIELDS[f], 0);
            values[f] = input.values(Input.FIELDS[f]);
            document.add(fields[f]);
        }
        return doc -> {
            node.setStringValue(Input.nodeName(input.node(doc % input.rows)));
            epoch.setLongValue(1 + doc / input.rows);
            for (int f = 0; f < fields.length; f++) {
                fields[f].setLongValue(NumericUtils.floatToSortableInt(values[f][doc]));
            }
            return document;
        };
    }

    /** Documents as stored: their source, and an id of as many bytes as those that the server makes. */
    private static Source texts(BufferedReader lines) {
        Random random = new Random(42);
        byte[] id = new byte[ID_BYTES];
        StoredField idField = new StoredField("_id", new BytesRef(id));
        StoredField sourceField = new StoredField("_source", new BytesRef());
        Document document = new Document();
        document.add(idField);
        document.add(sourceField);
        return doc -> {
            random.nextBytes(id);
            sourceField.setBytesValue(lines.readLine().getBytes(StandardCharsets.UTF_8));
            return document;
        };
    }
}
