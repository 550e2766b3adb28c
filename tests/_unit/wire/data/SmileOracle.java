import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.dataformat.smile.SmileFactory;
import com.fasterxml.jackson.dataformat.smile.SmileGenerator;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;

/**
 * Answers frames on standard input by frames on standard output until the input ends. A request is a letter, a length
 * of 4 bytes and that many bytes: 'd' has SMILE decoded to JSON; 'e', 's' and 'v' have JSON encoded to SMILE, with
 * nothing shared, with shared names, with shared names and values. An answer is a length and as many bytes, or -1 and a
 * message in modified UTF-8.
 */
public class SmileOracle {
    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(System.out);
        JsonFactory json = new JsonFactory();
        while (true) {
            int kind;
            try {
                kind = in.readByte();
            } catch (EOFException e) {
                return;
            }
            byte[] input = new byte[in.readInt()];
            in.readFully(input);
            SmileFactory smile = new SmileFactory();
            smile.configure(SmileGenerator.Feature.CHECK_SHARED_NAMES, kind != 'e');
            smile.configure(SmileGenerator.Feature.CHECK_SHARED_STRING_VALUES, kind == 'v');
            try {
                byte[] answer = kind == 'd' ? copy(smile, json, input) : copy(json, smile, input);
                out.writeInt(answer.length);
                out.write(answer);
            } catch (IOException e) {
                out.writeInt(-1);
                out.writeUTF(e.getMessage());
            }
            out.flush();
        }
    }

    static byte[] copy(JsonFactory from, JsonFactory to, byte[] input) throws IOException {
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        try (JsonParser parser = from.createParser(input); JsonGenerator generator = to.createGenerator(output)) {
            parser.nextToken();
            generator.copyCurrentStructure(parser);
            if (parser.nextToken() != null) {
                throw new IOException("more than one value");
            }
        }
        return output.toByteArray();
    }
}
