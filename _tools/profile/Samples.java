import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedFrame;
import jdk.jfr.consumer.RecordedMethod;
import jdk.jfr.consumer.RecordedThread;
import jdk.jfr.consumer.RecordingFile;

/**
 * Prints the execution samples of recordings: a line "S id thread;frame;frame;…" for each stack when it is first met,
 * the outermost frame first; a line "E ns id" for each sample, in ns since the epoch; a line "X text" for a recording
 * that cannot be read to its end.
 */
public class Samples {
    public static void main(String[] files) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Map<String, Integer> stacks = new HashMap<>();
        for (String file : files) {
            try (RecordingFile recording = new RecordingFile(Path.of(file))) {
                while (recording.hasMoreEvents()) {
                    RecordedEvent event = recording.readEvent();
                    if (!event.getEventType().getName().equals("jdk.ExecutionSample")) {
                        continue;
                    }
                    String stack = stack(event);
                    Integer id = stacks.get(stack);
                    if (id == null) {
                        stacks.put(stack, id = stacks.size());
                        out.println("S " + id + " " + stack);
                    }
                    Instant at = event.getStartTime();
                    out.println("E " + (at.getEpochSecond() * 1_000_000_000L + at.getNano()) + " " + id);
                }
            } catch (Exception e) { // whatever a file that was cut off makes the reader throw
                out.println("X " + file + ": " + clean(String.valueOf(e)));
            }
        }
        out.flush();
    }

    private static String stack(RecordedEvent event) {
        RecordedThread thread = event.getThread("sampledThread");
        String name = thread == null ? null : thread.getJavaName() == null ? thread.getOSName() : thread.getJavaName();
        StringBuilder found = new StringBuilder(clean(String.valueOf(name)));
        if (event.getStackTrace() != null) {
            var frames = event.getStackTrace().getFrames();
            for (int i = frames.size() - 1; i >= 0; i--) {
                found.append(';').append(clean(name(frames.get(i))));
            }
        }
        return found.toString();
    }

    private static String name(RecordedFrame frame) {
        RecordedMethod method = frame.getMethod();
        String type = method.getType() == null ? "" : method.getType().getName();
        return type == null || type.isEmpty() ? method.getName() : type + "." + method.getName();
    }

    private static String clean(String text) {
        return text.replace(';', ',').replace('\n', ' ');
    }
}
