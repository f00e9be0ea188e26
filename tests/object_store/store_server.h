#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/source_path.h"

namespace strata::test {

/// Who wrote a server.
enum class StoreMaker {
  kOurs,  ///< fake_store.py, which checks signatures.
  kMoto,  ///< moto_store.py, by the Python that STRATA_MOTO_PYTHON names.
};

/// A server of objects with these options (fake_store.py --help) for as long as this lives.
class StoreServer {
 public:
  explicit StoreServer(const std::vector<std::string>& options = {},
                       StoreMaker maker = StoreMaker::kOurs) {
    std::vector<std::string> command = {"python3", source_path("tests/object_store/fake_store.py")};
    if (maker == StoreMaker::kMoto) {
      command = {python_of_moto(), source_path("tests/object_store/moto_store.py")};
    }
    command.insert(command.end(), options.begin(), options.end());
    int in[2] = {}, out[2] = {};
    if (::pipe(in) != 0 || ::pipe(out) != 0) throw std::runtime_error("no pipes");
    std::vector<char*> arguments;
    for (std::string& each : command) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const int end : {in[0], in[1], out[0], out[1]}) ::close(end);
      ::execvp(arguments[0], arguments.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    input_ = in[1];
    output_ = out[0];
    const std::string first = line();
    if (!first.starts_with("port "))
      throw std::runtime_error(command[0] + " printed '" + first + "'");
    endpoint_ = "http://127.0.0.1:" + first.substr(5);
  }
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer() { stop(); }

  const std::string& endpoint() const { return endpoint_; }

  /// The value of STRATA_MOTO_PYTHON; empty if it is not set.
  static std::string python_of_moto() {
    const char* const named = std::getenv("STRATA_MOTO_PYTHON");  // NOLINT(concurrency-mt-unsafe)
    return named == nullptr ? "" : named;
  }
  static constexpr const char* kNoMoto =
      "needs moto: pip install 'moto[server]', and STRATA_MOTO_PYTHON, the path of that python";

  /// What it prints at its end: "requests 12 spoilt 1".
  std::string stop() {
    if (process_ <= 0) return "";
    ::close(input_);
    std::string last = line();
    ::close(output_);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
    return last;
  }

 private:
  std::string line() const {
    std::string text;
    for (char c = 0; ::read(output_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }

  pid_t process_ = 0;
  int input_ = -1;
  int output_ = -1;
  std::string endpoint_;
};

/// A variable of the environment, which children have, too, until this ends.
class VariableGuard {
 public:
  VariableGuard(std::string name, const std::string& value) : name_(std::move(name)) {
    ::setenv(name_.c_str(), value.c_str(), 1);
  }
  VariableGuard(const VariableGuard&) = delete;
  VariableGuard& operator=(const VariableGuard&) = delete;
  ~VariableGuard() { ::unsetenv(name_.c_str()); }

 private:
  const std::string name_;
};

}  // namespace strata::test
