package clustermetrics;

import java.util.Collection;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.elasticsearch.Build;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.metadata.IndexNameExpressionResolver;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.cluster.service.ClusterService;
import org.elasticsearch.common.io.stream.NamedWriteableRegistry;
import org.elasticsearch.common.settings.ClusterSettings;
import org.elasticsearch.common.settings.IndexScopedSettings;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.common.settings.SettingsFilter;
import org.elasticsearch.features.NodeFeature;
import org.elasticsearch.plugins.ActionPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.rest.BaseRestHandler;
import org.elasticsearch.rest.RestController;
import org.elasticsearch.rest.RestHandler;
import org.elasticsearch.rest.RestRequest;
import org.elasticsearch.rest.RestResponse;
import org.elasticsearch.rest.RestStatus;

/** Answers {@code GET /}, which the bare distribution lacks and every Elasticsearch client asks first. */
public final class RootInfoPlugin extends Plugin implements ActionPlugin {
    private ClusterService clusterService;

    @Override
    public Collection<?> createComponents(PluginServices services) {
        clusterService = services.clusterService();
        return List.of();
    }

    @Override
    public Collection<RestHandler> getRestHandlers(Settings settings, NamedWriteableRegistry writeables,
            RestController controller, ClusterSettings clusterSettings, IndexScopedSettings indexSettings,
            SettingsFilter filter, IndexNameExpressionResolver resolver, Supplier<DiscoveryNodes> nodes,
            Predicate<NodeFeature> features) {
        return List.of(new RootInfo());
    }

    private final class RootInfo extends BaseRestHandler {
        @Override
        public String getName() {
            return "root_info";
        }

        @Override
        public List<Route> routes() {
            return List.of(new Route(RestRequest.Method.GET, "/"), new Route(RestRequest.Method.HEAD, "/"));
        }

        @Override
        protected RestChannelConsumer prepareRequest(RestRequest request, NodeClient client) {
            return channel -> {
                Build build = Build.current();
                var body = channel.newBuilder().prettyPrint().startObject();
                body.field("name", clusterService.getNodeName());
                body.field("cluster_name", clusterService.getClusterName().value());
                body.field("cluster_uuid", clusterService.state().metadata().clusterUUID());
                body.startObject("version");
                body.field("number", build.qualifiedVersion());
                body.field("build_flavor", build.flavor());
                body.field("build_type", build.type().displayName());
                body.field("build_hash", build.hash());
                body.field("build_date", build.date());
                body.field("build_snapshot", build.isSnapshot());
                body.field("lucene_version", org.apache.lucene.util.Version.LATEST.toString());
                body.field("minimum_wire_compatibility_version", build.minWireCompatVersion());
                body.field("minimum_index_compatibility_version", build.minIndexCompatVersion());
                body.endObject();
                body.field("tagline", "You Know, for Search").endObject();
                channel.sendResponse(new RestResponse(RestStatus.OK, body));
            };
        }
    }
}
