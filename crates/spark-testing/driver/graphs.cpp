// Captures and graphs: pieces of work, each after some of the others.
//
//   a:  k1 ── record(e) ── k2 ────── wait(f) ── k4        k1 ─┬─ k2 ─┬─ k4
//   b:        wait(e) ──── k3 ── record(f)                    └─ k3 ─┘
//
// Launches run the pieces in one order and then in the other that the graph allows, so that an
// edge that is missing shows.

#include <algorithm>

#include "state.h"

using namespace stand_in;

namespace {

// Whether every piece comes before the end of the stream that began: whoever joined is joined again.
bool is_joined(const Capture& capture) {
  std::vector<bool> is_before(capture.nodes.size());
  for (std::size_t idx : capture.origin->tail) is_before[idx] = true;
  for (std::size_t idx = capture.nodes.size(); idx-- > 0;) {
    if (!is_before[idx]) return false;
    for (std::size_t earlier : capture.nodes[idx].after) is_before[earlier] = true;
  }
  return true;
}

// The pieces in an order that keeps every edge: the first or the last that is free goes next.
std::vector<std::size_t> order_of(const Graph& graph, bool last_first) {
  std::vector<std::size_t> order;
  std::vector<bool> is_done(graph.nodes.size());
  while (order.size() < graph.nodes.size()) {
    std::size_t next = graph.nodes.size();
    for (std::size_t idx = 0; idx < graph.nodes.size(); ++idx) {
      const auto& after = graph.nodes[idx].after;
      bool is_free = !is_done[idx] && std::all_of(after.begin(), after.end(), [&](std::size_t at) { return is_done[at]; });
      if (is_free && (next == graph.nodes.size() || last_first)) next = idx;
    }
    is_done[next] = true;
    order.push_back(next);
  }
  return order;
}

std::string shape_of(void* handle) {
  auto* graph = find(graphs, handle);
  if (graph == nullptr) return {};
  std::size_t n_edges = 0;
  for (const Node& node : (*graph)->nodes) n_edges += std::set<std::size_t>(node.after.begin(), node.after.end()).size();
  return std::to_string((*graph)->nodes.size()) + " nodes " + std::to_string(n_edges) + " edges";
}

}  // namespace

API cuStreamBeginCapture_v2(void* handle, int) {
  ENTER_CONTEXT(cuStreamBeginCapture_v2);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->capture) return ILLEGAL_STATE;
  (*stream)->capture = std::make_shared<Capture>();
  (*stream)->capture->origin = stream->get();
  (*stream)->tail.clear();
  return SUCCESS;
}
// One table holds recorded graphs and what is made of them.
API cuStreamEndCapture(void* handle, void** graph) {
  ENTER_GIVING_BACK(cuStreamEndCapture);
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  std::shared_ptr<Capture> capture = (*stream)->capture;
  if (!capture) return ILLEGAL_STATE;
  if (capture->origin != stream->get()) return CAPTURE_UNMATCHED;
  bool joined = is_joined(*capture);
  for (auto& [other_handle, other] : streams) {
    if (other->capture == capture) other->capture = nullptr;
  }
  if (told != 0) return told;
  if (!joined) return CAPTURE_UNJOINED;
  *graph = new_handle();
  graphs[*graph] = std::make_shared<Graph>(Graph{std::move(capture->nodes)});
  return SUCCESS;
}
API cuGraphInstantiateWithFlags(void** ready, void* graph, unsigned long long) {
  ENTER_CONTEXT(cuGraphInstantiateWithFlags, shape_of(graph));
  auto* found = find(graphs, graph);
  if (found == nullptr) return INVALID_HANDLE;
  auto same = std::make_shared<Graph>(**found);
  *ready = new_handle();
  graphs[*ready] = same;
  return SUCCESS;
}
// What was launched of it is in its streams' queues and runs when they get there, as with the real driver.
static Result drop_graph(void* graph, Result told) {
  if (graphs.erase(graph) == 0) { violation("a graph destroyed twice"); return INVALID_HANDLE; }
  return told;
}
API cuGraphDestroy(void* graph) { ENTER_GIVING_BACK(cuGraphDestroy); return drop_graph(graph, told); }
API cuGraphExecDestroy(void* graph) { ENTER_GIVING_BACK(cuGraphExecDestroy); return drop_graph(graph, told); }
#ifndef STAND_IN_BROKEN_DRIVER
API cuGraphLaunch(void* handle_of_graph, void* handle) {
  ENTER_CONTEXT(cuGraphLaunch);
  auto* found = find(graphs, handle_of_graph);
  auto* stream = find(streams, handle);
  if (found == nullptr || stream == nullptr) return INVALID_HANDLE;
  if ((*stream)->capture) return CAPTURE_UNSUPPORTED;
  Graph& graph = **found;
  for (std::size_t idx : order_of(graph, graph.n_launched++ % 2 == 1)) submit(**stream, graph.nodes[idx].op);
  return SUCCESS;
}
#endif
