// A synchronous step with parameter servers: pulls beside forward, pushes beside backward.
#include "simulate/parameter_server_step.h"

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <utility>

#include "simulate/event_queue.h"
#include "simulate/flow_network.h"
#include "simulate/tcp_network.h"

namespace strata::simulate {
namespace {

// Over a switch's queues. Windows of connections need steps to become what they are in the long run.
constexpr int kStepsBefore = 2;
constexpr int kStepsOfMedian = 5;
constexpr double kWakeSeconds = 1e-3;  // within which a server's threads answer what came at once

/// The bytes of a layer that one server has.
struct Part {
  int server;
  double bytes;
};

/// Messages between one worker and one server in one direction: one after the other.
struct Connection {
  int over_switch = -1;  // in the TcpNetwork
  struct Message {
    double bytes;
    FlowNetwork::Done arrived;
  };
  bool busy = false;
  std::deque<Message> waiting = {};
};

class ServerStep {
 public:
  ServerStep(const Scenario& scenario, const std::vector<double>& factors, bool grouped)
      : scenario_(scenario),
        layers_(scenario.network.layers),
        factors_(factors),
        grouped_(grouped),
        over_switch_(scenario.switch_queue_seconds > 0),
        workers_(grouped ? 1 : scenario.workers()),
        servers_(scenario.servers),
        network_(events_),
        tcp_(events_),
        random_(scenario.seed) {
    place();
    add_ports();
    pulls_.resize(static_cast<size_t>(workers_ * servers_));
    pushes_.resize(static_cast<size_t>(workers_ * servers_));
    if (over_switch_) connect();
  }

  StepReport run() {
    if (!over_switch_) return run_once();
    for (int i = 0; i < kStepsBefore; ++i) run_once();
    std::vector<StepReport> reports;
    for (int i = 0; i < kStepsOfMedian; ++i) reports.push_back(run_once());
    const auto median = reports.begin() + kStepsOfMedian / 2;
    std::ranges::nth_element(reports, median, {}, &StepReport::step_seconds);
    median->events = events_.events();
    return *median;
  }

 private:
  struct Worker {
    size_t next = 0;  // layer of forward
    bool computing = false;
    std::vector<int> missing = {};  // parts of each layer
    double forward_end = 0;
    double backward_end = 0;
    double end = 0;  // everything is pulled that is pulled in this step
  };

  /// Begins when the step before has ended.
  StepReport run_once() {
    begin_ = events_.now();
    between_hosts_ = 0;
    state_.assign(static_cast<size_t>(workers_), {});
    unpushed_.resize(layers_.size());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      unpushed_[layer].assign(parts_[layer].size(), workers_);
    }
    for (int w = 0; w < workers_; ++w) {
      Worker& worker = state_[static_cast<size_t>(w)];
      worker.missing.resize(layers_.size(), 0);
      if (scenario_.variable_update == VariableUpdate::kParameterServer) pull_all(w);
      forward(w);
    }
    events_.run();
    return report();
  }

  void pull_all(int w) {
    std::vector<double> answered(static_cast<size_t>(servers_));
    for (double& time : answered) {
      time = events_.now() + kWakeSeconds * static_cast<double>(random_() >> 11) * 0x1p-53;
    }
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      state_[static_cast<size_t>(w)].missing[layer] = static_cast<int>(parts_[layer].size());
      for (const Part& part : parts_[layer]) {
        const auto pull = [this, w, part, layer] {
          send(/*pull=*/true, w, part.server, part.bytes, [this, w, layer] {
            --state_[static_cast<size_t>(w)].missing[layer];
            forward(w);
          });
        };
        if (over_switch_) {
          events_.at(answered[static_cast<size_t>(part.server)], pull);
        } else {
          pull();
        }
      }
    }
  }

  void place() {
    const std::vector<ps::VariableSpec> variables = scenario_.network.variables();
    const ps::Placement placement = place_on_servers(variables, servers_, scenario_.placement);
    loads_.resize(static_cast<size_t>(servers_));
    std::vector<std::map<int, double>> by_layer(layers_.size());
    std::vector<size_t> layer_of;
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      layer_of.insert(layer_of.end(), layers_[layer].variables.size(), layer);
    }
    for (const ps::Piece& piece : placement.pieces) {
      const ps::VariableSpec& variable = variables[piece.variable];
      const int64_t bytes = piece.size() * (num_bytes(variable) / num_elements(variable));
      by_layer[layer_of[piece.variable]][piece.server] += static_cast<double>(bytes);
      ServerLoad& load = loads_[static_cast<size_t>(piece.server)];
      load.bytes += bytes;
      ++load.variables;
      if (bytes > load.largest_bytes) {
        load.largest_bytes = bytes;
        load.largest = variable.name;
      }
    }
    parts_.resize(layers_.size());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      for (const auto& [server, bytes] : by_layer[layer]) parts_[layer].push_back({server, bytes});
    }
  }

  /// Workers' hosts have lines, which the servers there share; other servers have hosts of their
  /// own. Grouped, lines of hosts with servers are apart, and all workers but those of the host use
  /// them.
  void add_ports() {
    const double rate = scenario_.links.across_hosts.bytes_per_second;
    const auto add_line = [&](std::vector<int>& out, std::vector<int>& in) {
      out.push_back(over_switch_ ? tcp_.add_port(rate, 0) : network_.add_port(rate));
      in.push_back(over_switch_ ? tcp_.add_port(rate, rate * scenario_.switch_queue_seconds)
                                : network_.add_port(rate));
    };
    const int hosts = scenario_.hosts();
    for (int host = 0; host < (grouped_ ? 1 : hosts); ++host) add_line(worker_out_, worker_in_);
    memory_ = network_.add_port(0);
    for (int server = 0; server < servers_; ++server) {
      const auto host = static_cast<size_t>(server % hosts);
      if (!scenario_.servers_on_workers) {
        add_line(server_out_, server_in_);
      } else if (!grouped_) {
        server_out_.push_back(worker_out_[host]);
        server_in_.push_back(worker_in_[host]);
      } else if (server < hosts) {
        add_line(server_out_, server_in_);
      } else {
        server_out_.push_back(server_out_[host]);
        server_in_.push_back(server_in_[host]);
      }
    }
  }

  /// Every worker with every server on another host.
  void connect() {
    for (int worker = 0; worker < workers_; ++worker) {
      for (int server = 0; server < servers_; ++server) {
        if (same_host(worker, server)) continue;
        const size_t host = host_of(worker);
        const auto at = static_cast<size_t>(server);
        const double latency = scenario_.links.across_hosts.latency;
        connection(/*pull=*/true, worker, server).over_switch = tcp_.add_connection(
            {server_out_[at], worker_in_[host], worker_out_[host], server_in_[at], latency});
        connection(/*pull=*/false, worker, server).over_switch = tcp_.add_connection(
            {worker_out_[host], server_in_[at], server_out_[at], worker_in_[host], latency});
      }
    }
  }
  Connection& connection(bool pull, int worker, int server) {
    return (pull ? pulls_ : pushes_)[static_cast<size_t>(worker) * static_cast<size_t>(servers_) +
                                     static_cast<size_t>(server)];
  }

  size_t host_of(int worker) const {
    return static_cast<size_t>(grouped_ ? 0 : worker / scenario_.workers_per_host);
  }
  bool same_host(int worker, int server) const {
    return scenario_.servers_on_workers && !grouped_ &&
           host_of(worker) == static_cast<size_t>(server % scenario_.hosts());
  }

  void send(bool pull, int worker, int server, double bytes, FlowNetwork::Done arrived) {
    Connection& over = connection(pull, worker, server);
    if (over.over_switch >= 0) {
      between_hosts_ += bytes;
      tcp_.send(over.over_switch, bytes, std::move(arrived));
      return;
    }
    over.waiting.push_back({bytes, std::move(arrived)});
    if (!over.busy) begin(pull, worker, server, over);
  }

  void begin(bool pull, int worker, int server, Connection& connection) {
    connection.busy = true;
    Connection::Message message = std::move(connection.waiting.front());
    connection.waiting.pop_front();
    const auto at = static_cast<size_t>(server);
    std::vector<FlowNetwork::Share> ports;
    double latency = scenario_.links.across_hosts.latency;
    if (same_host(worker, server)) {
      ports = {{memory_}};
      latency = scenario_.links.in_host.latency;
    } else if (grouped_) {
      const double near = scenario_.workers_per_host;
      double others = scenario_.workers();
      if (scenario_.servers_on_workers) others = std::max(0.0, others - near);
      if (others == 0) {
        ports = {{memory_}};
      } else {
        // On other hosts is all but the share of servers that are on the worker's own.
        ports = {{(pull ? server_out_ : server_in_)[at], others},
                 {(pull ? worker_in_ : worker_out_)[0], near * others / scenario_.workers()}};
      }
    } else {
      ports = {{(pull ? server_out_ : server_in_)[at]},
               {(pull ? worker_in_ : worker_out_)[host_of(worker)]}};
    }
    if (ports[0].port != memory_) {
      between_hosts_ += message.bytes * (grouped_ ? ports[0].weight : 1);
    }
    network_.start(ports, message.bytes,
                   [this, pull, worker, server, &connection, latency,
                    arrived = std::move(message.arrived)]() mutable {
                     events_.at(events_.now() + latency, std::move(arrived));
                     connection.busy = false;
                     if (!connection.waiting.empty()) begin(pull, worker, server, connection);
                   });
  }

  void forward(int w) {
    Worker& worker = state_[static_cast<size_t>(w)];
    if (worker.computing || worker.next == layers_.size()) return;
    if (worker.missing[worker.next] > 0) return;
    worker.computing = true;
    const double seconds = layers_[worker.next].forward_seconds * factors_[static_cast<size_t>(w)];
    events_.at(events_.now() + seconds, [this, w] {
      Worker& self = state_[static_cast<size_t>(w)];
      self.computing = false;
      if (++self.next == layers_.size()) {
        self.forward_end = events_.now();
        backward(w, layers_.size());
      } else {
        forward(w);
      }
    });
  }

  /// Of the layers below `layer`.
  void backward(int w, size_t layer) {
    if (layer == 0) {
      state_[static_cast<size_t>(w)].backward_end = events_.now();
      return;
    }
    const double seconds = layers_[layer - 1].backward_seconds * factors_[static_cast<size_t>(w)];
    events_.at(events_.now() + seconds, [this, w, layer] {
      push(w, layer - 1);
      backward(w, layer - 1);
    });
  }

  void push(int w, size_t layer) {
    for (size_t part = 0; part < parts_[layer].size(); ++part) {
      const Part& to = parts_[layer][part];
      send(/*pull=*/false, w, to.server, to.bytes, [this, layer, part] {
        if (--unpushed_[layer][part] == 0) added(layer, part);
      });
    }
  }

  /// All workers have pushed this part, and the server updates it.
  void added(size_t layer, size_t part) {
    all_pushed_at_ = events_.now();
    if (scenario_.variable_update == VariableUpdate::kParameterServer) return;
    const Part& from = parts_[layer][part];
    for (int w = 0; w < workers_; ++w) {
      send(/*pull=*/true, w, from.server, from.bytes,
           [this, w] { state_[static_cast<size_t>(w)].end = events_.now(); });
    }
  }

  StepReport report() {
    const auto last = std::max_element(
        state_.begin(), state_.end(),
        [](const Worker& a, const Worker& b) { return a.backward_end < b.backward_end; });
    const double factor = factors_[static_cast<size_t>(last - state_.begin())];
    StepReport report;
    report.compute_seconds = scenario_.network.step_seconds();
    report.straggler_seconds = (factor - 1) * report.compute_seconds;
    double end = std::max(last->backward_end, all_pushed_at_);
    report.push_seconds = end - last->backward_end;
    report.pull_seconds = last->forward_end - begin_ - factor * scenario_.network.forward_seconds();
    for (const Worker& worker : state_) {
      if (worker.end <= end) continue;
      report.pull_seconds += worker.end - end;
      end = worker.end;
    }
    report.step_seconds = end - begin_;
    report.servers = loads_;
    const auto hot = std::max_element(
        loads_.begin(), loads_.end(),
        [](const ServerLoad& a, const ServerLoad& b) { return a.bytes < b.bytes; });
    const double rate = scenario_.links.across_hosts.bytes_per_second;
    const int others =
        scenario_.workers() - (scenario_.servers_on_workers ? scenario_.workers_per_host : 0);
    if (rate > 0) {
      report.hot_server_seconds = static_cast<double>(hot->bytes) * std::max(0, others) / rate;
    }
    report.bytes_between_hosts = between_hosts_;
    report.events = events_.events();
    return report;
  }

  const Scenario& scenario_;
  const std::vector<Layer>& layers_;
  const std::vector<double>& factors_;
  const bool grouped_;
  const bool over_switch_;
  const int workers_;
  const int servers_;
  EventQueue events_;
  FlowNetwork network_;
  TcpNetwork tcp_;  // instead, over a switch
  std::mt19937_64 random_;
  std::vector<ServerLoad> loads_;
  std::vector<std::vector<Part>> parts_;  // by layer
  std::vector<int> worker_out_, worker_in_, server_out_, server_in_;
  int memory_ = 0;
  std::vector<Worker> state_;
  std::vector<Connection> pulls_, pushes_;  // by worker, server
  std::vector<std::vector<int>> unpushed_;  // by layer, part: workers
  double begin_ = 0;
  double all_pushed_at_ = 0;
  double between_hosts_ = 0;
};

}  // namespace

StepReport parameter_server_step(const Scenario& scenario, const std::vector<double>& factors,
                                 bool grouped) {
  return ServerStep(scenario, factors, grouped).run();
}

}  // namespace strata::simulate
