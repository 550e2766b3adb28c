package clustermetrics.micro;

import java.io.IOException;
import java.nio.file.Path;
import org.apache.lucene.document.LongPoint;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.LeafReader;
import org.apache.lucene.index.LeafReaderContext;
import org.apache.lucene.index.Term;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.BulkScorer;
import org.apache.lucene.search.DocIdSetIterator;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.LRUQueryCache;
import org.apache.lucene.search.LeafCollector;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.QueryCachingPolicy;
import org.apache.lucene.search.Scorable;
import org.apache.lucene.search.ScoreMode;
import org.apache.lucene.search.TermQuery;
import org.apache.lucene.search.Weight;
import org.apache.lucene.store.MMapDirectory;

/** The index of metrics in one segment, and the production query's filter as the server's field types make it. */
final class Metrics implements AutoCloseable {
    final Input input = Input.given();
    final LeafReaderContext leaf;
    final IndexSearcher searcher;
    private final DirectoryReader reader;

    /** @param cached whether filters are taken from the query cache, all of them and from their second use on */
    Metrics(boolean cached) throws IOException {
        reader = DirectoryReader.open(new MMapDirectory(folder(input)));
        leaf = Indices.only(reader);
        searcher = new IndexSearcher(reader);
        searcher.setQueryCache(cached ? new LRUQueryCache(1000, 1L << 28, context -> true, Float.POSITIVE_INFINITY) : null);
        searcher.setQueryCachingPolicy(new QueryCachingPolicy() {
            @Override
            public void onUse(Query query) {}

            @Override
            public boolean shouldCache(Query query) {
                return cached;
            }
        });
    }

    static Path folder(Input input) {
        return Indices.folder(input, "metrics");
    }

    LeafReader segment() {
        return leaf.reader();
    }

    static Query node(int node) {
        return new TermQuery(new Term("node", Input.nodeName(node)));
    }

    static Query epoch() {
        return LongPoint.newExactQuery("epoch", 1);
    }

    /** The filter of one search. */
    static Query filter(int node) {
        return new BooleanQuery.Builder().add(node(node), BooleanClause.Occur.FILTER)
            .add(epoch(), BooleanClause.Occur.FILTER)
            .build();
    }

    /** Feeds the documents that a query matches to a collector, as a search that needs no scores does. */
    void search(Query query, LeafCollector collector) throws IOException {
        Weight weight = searcher.createWeight(searcher.rewrite(query), ScoreMode.COMPLETE_NO_SCORES, 1);
        BulkScorer scorer = weight.bulkScorer(leaf);
        if (scorer != null) {
            scorer.score(collector, null, 0, DocIdSetIterator.NO_MORE_DOCS);
        }
    }

    /** Counts documents and does nothing else. */
    static final class Visits implements LeafCollector {
        int count;

        @Override
        public void setScorer(Scorable scorer) {}

        @Override
        public void collect(int doc) {
            count++;
        }
    }

    @Override
    public void close() throws IOException {
        reader.close();
    }
}
