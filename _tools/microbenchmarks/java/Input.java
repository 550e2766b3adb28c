package clustermetrics.micro;

import java.io.IOException;
import java.io.Reader;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;

/** What the benchmarks are fed with: the corpora's own values, as Python wrote them (see inputs.py). */
final class Input {
    /** System property that names the folder. */
    static final String FOLDER = "micro.input";
    static final String[] FIELDS = { "cpu", "mem", "net" };

    final Path folder;
    final int nodes, tasks, rows, epochs, texts, textValues;
    /** Rows of the bulk bodies. */
    final int bulkRows;

    Input(Path folder) throws IOException {
        this.folder = folder;
        Properties properties = new Properties();
        try (Reader reader = Files.newBufferedReader(folder.resolve("input.properties"))) {
            properties.load(reader);
        }
        nodes = number(properties, "nodes");
        tasks = number(properties, "tasks");
        rows = number(properties, "rows_per_epoch");
        epochs = number(properties, "epochs");
        texts = number(properties, "text_documents");
        textValues = number(properties, "text_distinct_values");
        bulkRows = number(properties, "bulk_rows");
    }

    static Input given() throws IOException {
        return new Input(Path.of(System.getProperty(FOLDER)));
    }

    private static int number(Properties properties, String name) {
        return Integer.parseInt(properties.getProperty(name));
    }

    byte[] bytes(String name) throws IOException {
        return Files.readAllBytes(folder.resolve(name));
    }

    /** The values of a field in all epochs, in the order of the index. */
    float[] values(String field) throws IOException {
        float[] values = new float[rows * epochs];
        try (FileChannel channel = FileChannel.open(folder.resolve(field + ".bin"))) {
            channel.map(FileChannel.MapMode.READ_ONLY, 0, 4L * values.length)
                .order(ByteOrder.LITTLE_ENDIAN)
                .asFloatBuffer()
                .get(values);
        }
        return values;
    }

    /** The node, counted from 0, of a row of an epoch. */
    int node(int row) {
        return row % nodes;
    }

    static String nodeName(int node) {
        return String.format("N%03d", node + 1);
    }

    /**
     * The values of a field in the first epoch, an array for each node: what one search reads.
     *
     * @param most documents of each search; 0 for all that the node has
     */
    double[][] searches(String field, int most) throws IOException {
        float[] values = values(field);
        double[][] found = new double[nodes][];
        for (int node = 0; node < nodes; node++) {
            int count = (rows - node + nodes - 1) / nodes;
            count = most > 0 ? Math.min(most, count) : count;
            found[node] = new double[count];
            for (int i = 0; i < count; i++) {
                found[node][i] = values[node + i * nodes];
            }
        }
        return found;
    }

    /** The value, counted from 1, of each document of the corpus of texts, in the order of the index. */
    char[] textOrder() throws IOException {
        char[] order = new char[texts];
        try (FileChannel channel = FileChannel.open(folder.resolve("texts.bin"))) {
            channel.map(FileChannel.MapMode.READ_ONLY, 0, 2L * texts).order(ByteOrder.LITTLE_ENDIAN).asCharBuffer().get(order);
        }
        return order;
    }
}
