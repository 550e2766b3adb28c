package clustermetrics.micro;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.BenchmarkResult;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.results.format.ResultFormatFactory;
import org.openjdk.jmh.results.format.ResultFormatType;
import org.openjdk.jmh.runner.BenchmarkList;
import org.openjdk.jmh.runner.BenchmarkListEntry;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.format.OutputFormatFactory;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.CommandLineOptionException;
import org.openjdk.jmh.runner.options.CommandLineOptions;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * JMH's own command line, but in rounds: each round forks every benchmark once with each of its parameters, in an order
 * of its own, so that what drifts in a machine favours none. JMH by itself takes all forks of one after the other.
 */
final class Run {
    private static final int FORKS = 6, WARMUP = 3, MEASURED = 3;
    private static final TimeValue SECONDS = TimeValue.milliseconds(500);
    private static final int SEED = 42;
    /** What a line begins with that says why nothing, or no more, is run. */
    private static final String REFUSED = "[ERROR] ";

    private Run() {}

    private record Task(String benchmark, Map<String, String> parameters) {
        String name() {
            String of = parameters.entrySet().stream().map(p -> p.getKey() + "=" + p.getValue()).collect(Collectors.joining(" "));
            return benchmark.replaceFirst(".*\\.(\\w+\\.\\w+)$", "$1") + " " + of;
        }
    }

    /** @param given folder of the input, file for JMH's JSON, file for what JMH says, flags of the JVMs separated by blanks,
     * a regular expression of benchmarks, then JMH's own arguments */
    public static void main(String[] given) throws IOException {
        try {
            run(given);
        } catch (IllegalArgumentException e) {
            System.out.println(REFUSED + e.getMessage());
            System.exit(1);
        } catch (RunnerException e) {
            System.out.println(REFUSED + "a benchmark failed: " + e.getMessage());
            System.exit(1);
        }
    }

    private static void run(String[] given) throws IOException, RunnerException {
        List<String> rest = List.of(given).subList(5, given.length);
        CommandLineOptions options;
        try {
            options = new CommandLineOptions(rest.toArray(String[]::new));
        } catch (CommandLineOptionException e) {
            throw new IllegalArgumentException("JMH does not take ARGS: " + e.getMessage());
        }
        if (!options.getIncludes().isEmpty()) { // JMH would run all of these for each task
            throw new IllegalArgumentException("ARGS names " + options.getIncludes() + "; BENCH names benchmarks");
        }
        List<Task> tasks = tasks(options, given[4]);
        if (tasks.isEmpty()) {
            throw new IllegalArgumentException("no benchmark is called [" + given[4] + "]");
        }
        Map<Task, List<RunResult>> results = new LinkedHashMap<>();
        tasks.forEach(task -> results.put(task, new ArrayList<>()));
        int rounds = Math.max(1, options.getForkCount().orElse(FORKS));
        Random random = new Random(SEED);
        for (int round = 1; round <= rounds; round++) {
            Collections.shuffle(tasks, random);
            int number = 0;
            for (Task task : tasks) {
                Collection<RunResult> found = new Runner(of(task, options, given)).run();
                if (found.size() != 1) {
                    throw new IllegalStateException(found.size() + " results of " + task.name() + " in place of one");
                }
                RunResult result = found.iterator().next();
                results.get(task).add(result);
                double score = result.getPrimaryResult().getScore();
                System.out.printf("round %d/%d, %d/%d: %s: %.4g us%n", round, rounds, ++number, tasks.size(), task.name(), score);
            }
        }
        write(results.values(), Path.of(given[1]));
    }

    /** Each benchmark with each combination of its parameters. */
    private static List<Task> tasks(CommandLineOptions options, String pattern) {
        List<Task> found = new ArrayList<>();
        var silent = OutputFormatFactory.createFormatInstance(System.out, VerboseMode.SILENT);
        for (BenchmarkListEntry entry : BenchmarkList.defaultList().find(silent, List.of(pattern), options.getExcludes())) {
            List<Map<String, String>> combinations = List.of(Map.of());
            Map<String, String[]> parameters = new TreeMap<>(entry.getParams().orElse(Map.of()));
            for (Map.Entry<String, String[]> parameter : parameters.entrySet()) {
                Collection<String> values = options.getParameter(parameter.getKey()).orElse(List.of(parameter.getValue()));
                combinations = combinations.stream().flatMap(c -> values.stream().map(value -> {
                    Map<String, String> more = new TreeMap<>(c);
                    more.put(parameter.getKey(), value);
                    return more;
                })).collect(Collectors.toList());
            }
            combinations.forEach(c -> found.add(new Task(entry.getUsername(), c)));
        }
        return found;
    }

    private static org.openjdk.jmh.runner.options.Options of(Task task, CommandLineOptions options, String[] given) {
        ChainedOptionsBuilder builder = new OptionsBuilder().parent(options)
            .include("^" + Pattern.quote(task.benchmark) + "$")
            .forks(Math.min(1, options.getForkCount().orElse(FORKS)))
            .warmupIterations(options.getWarmupIterations().orElse(WARMUP))
            .warmupTime(options.getWarmupTime().orElse(SECONDS))
            .measurementIterations(options.getMeasurementIterations().orElse(MEASURED))
            .measurementTime(options.getMeasurementTime().orElse(SECONDS))
            .timeUnit(TimeUnit.MICROSECONDS)
            .jvmArgsAppend("-D" + Input.FOLDER + "=" + given[0])
            .output(given[2])
            .shouldFailOnError(true);
        task.parameters.forEach(builder::param);
        if (!options.getJvmArgs().hasValue()) {
            builder.jvmArgs(given[3].split(" "));
        }
        if (options.getProfilers().isEmpty()) {
            builder.addProfiler(GCProfiler.class);
        }
        return builder.build();
    }

    private static void write(Collection<List<RunResult>> results, Path file) throws IOException {
        List<RunResult> merged = new ArrayList<>();
        for (List<RunResult> rounds : results) {
            List<BenchmarkResult> forks = new ArrayList<>();
            rounds.forEach(round -> forks.addAll(round.getBenchmarkResults()));
            merged.add(new RunResult(rounds.get(0).getParams(), forks));
        }
        try (PrintStream out = new PrintStream(file.toFile(), "UTF-8")) {
            ResultFormatFactory.getInstance(ResultFormatType.JSON, out).writeOut(merged);
        }
    }
}
