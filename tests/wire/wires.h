#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/thread.h"
#include "strata/core/str_cat.h"
#include "support/temp_folder.h"
#include "wire/memory/memory_network.h"
#include "wire/tcp/socket_transport.h"
#include "wire/tls/certificates.h"
#include "wire/transport.h"
#include "wire/ucx/ucx_transport.h"

namespace strata::wire {

inline Deadline soon() { return Deadline::after(std::chrono::seconds(120)); }

inline std::string task_name(int task) { return str_cat("/job:worker/task:", task); }

inline Hello hello_of(int task, const std::string& purpose = "test") {
  return {.job = "contract", .task = task_name(task), .generation = 1, .purpose = purpose};
}

/// One kind of wire, as the contract's tests see it.
class Wires {
 public:
  virtual ~Wires() = default;
  virtual std::unique_ptr<Transport> transport(int task) = 0;
  /// Where that task may listen.
  virtual Address place(int task) = 0;
};

class MemoryWires final : public Wires {
 public:
  explicit MemoryWires(const MemoryNetworkOptions& options = {},
                       std::optional<JobSecret> secret = std::nullopt)
      : network_(options), secret_(std::move(secret)) {}
  std::unique_ptr<Transport> transport(int task) override {
    return network_.transport(place(task).host, secret_);
  }
  Address place(int task) override { return {.host = str_cat("host", task), .port = 0}; }
  MemoryNetwork& network() { return network_; }

 private:
  MemoryNetwork network_;
  const std::optional<JobSecret> secret_;
};

class SocketWires : public Wires {
 public:
  explicit SocketWires(const SocketOptions& options = {}) : options_(options) {}
  std::unique_ptr<Transport> transport(int) override { return make_socket_transport(options_); }
  Address place(int) override { return {.host = "127.0.0.1", .port = 0}; }

 protected:
  SocketOptions options_;
};

class UcxWires final : public Wires {
 public:
  explicit UcxWires(const UcxOptions& options = {}) : options_(options) {}
  std::unique_ptr<Transport> transport(int) override { return make_ucx_transport(options_); }
  Address place(int) override { return {.host = "127.0.0.1", .port = 0}; }

 private:
  const UcxOptions options_;
};

/// Every task with its certificate of one authority.
class TlsWires final : public SocketWires {
 public:
  explicit TlsWires(const SocketOptions& options = {}) : SocketWires(options) {
    write_certificate(authority_, folder_.path(), "authority");
  }
  std::unique_ptr<Transport> transport(int task) override {
    const std::string name = str_cat("task", task);
    write_certificate(issue_certificate(authority_, task_name(task)), folder_.path(), name);
    SocketOptions options = options_;
    options.tls = files(name);
    return make_socket_transport(options);
  }
  TlsOptions files(const std::string& name) const {
    return {.authority_file = folder_.path() + "/authority.pem",
            .certificate_file = str_cat(folder_.path(), "/", name, ".pem"),
            .key_file = str_cat(folder_.path(), "/", name, ".key")};
  }
  const Certificate& authority() const { return authority_; }
  const std::string& folder() const { return folder_.path(); }

 private:
  const Certificate authority_ = make_authority("contract");
  const test::TempFolder folder_;
};

/// Tasks 0..n-1, each connected with each.
class Mesh {
 public:
  Mesh(Wires& wires, int tasks) : connections_(tasks) {
    for (int i = 0; i < tasks; ++i) {
      transports_.push_back(wires.transport(i));
      addresses_.push_back(transports_[i]->listen(wires.place(i), hello_of(i)));
      connections_[i].resize(tasks);
    }
    std::vector<Thread> threads;
    for (int i = 0; i < tasks; ++i) {
      threads.emplace_back("mesh", [this, i, tasks] {
        for (int j = i + 1; j < tasks; ++j)
          connections_[i][j] =
              transports_[i]->connect(addresses_[j], hello_of(i), soon(), {.peer = task_name(j)});
        for (int j = 0; j < i; ++j) {
          auto connection = transports_[i]->accept(soon());
          const std::string& task = connection->peer().task;
          connections_[i][std::stoi(task.substr(task.rfind(':') + 1))] = std::move(connection);
        }
      });
    }
  }

  int num_tasks() const { return static_cast<int>(transports_.size()); }
  Transport& transport(int task) { return *transports_[task]; }
  /// From one task's side.
  Connection& connection(int from, int to) { return *connections_[from][to]; }
  std::shared_ptr<Connection>& handle(int from, int to) { return connections_[from][to]; }
  const Address& address(int task) const { return addresses_[task]; }

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Address> addresses_;
  std::vector<std::vector<std::shared_ptr<Connection>>> connections_;
};

}  // namespace strata::wire
