// RemoteMonitor, with servers of this process on 127.0.0.1.
#include <ATen/ops/ones.h>
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "strata/core/json.h"
#include "strata/keras/callbacks.h"
#include "strata/keras/layers/core.h"
#include "strata/keras/sequential.h"
#include "strata/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/log_lines.h"

namespace strata::keras {
namespace {

using namespace std::chrono_literals;

/// What a server does with a request.
enum class Manner { kAnswers, kRefuses, kIsSilent };

/// Takes `count` requests, one after the other, each for a minute at most.
class MonitorServer {
 public:
  MonitorServer(int count, Manner manner) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool good = ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                      ::listen(listener_, 4) == 0 &&
                      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    EXPECT_TRUE(good);
    root_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
    thread_ = std::thread([this, count, manner] {
      for (int i = 0; i < count; ++i) serve(manner);
    });
  }
  ~MonitorServer() {
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  const std::string& root() const { return root_; }
  const std::vector<std::string>& requests() {
    thread_.join();
    return requests_;
  }

 private:
  static bool is_ready(int file) {
    pollfd wanted{.fd = file, .events = POLLIN, .revents = 0};
    return ::poll(&wanted, 1, 60'000) == 1;
  }

  void serve(Manner manner) {
    if (!is_ready(listener_)) return;
    const int peer = ::accept(listener_, nullptr, nullptr);
    std::string request;
    char buffer[4096];
    while (!is_whole(request) && is_ready(peer)) {
      const ssize_t bytes = ::read(peer, buffer, sizeof buffer);
      if (bytes <= 0) break;
      request.append(buffer, static_cast<size_t>(bytes));
    }
    requests_.push_back(request);
    if (manner == Manner::kIsSilent) {
      // Until the other end gives up.
      while (is_ready(peer) && ::read(peer, buffer, sizeof buffer) > 0) {
      }
    } else {
      const std::string status = manner == Manner::kAnswers ? "200 OK" : "500 Broken";
      const std::string answer =
          "HTTP/1.1 " + status + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      EXPECT_EQ(::write(peer, answer.data(), answer.size()), static_cast<ssize_t>(answer.size()));
    }
    ::close(peer);
  }

  /// The head, and as many bytes behind it as that says.
  static bool is_whole(const std::string& request) {
    const size_t end = request.find("\r\n\r\n");
    const size_t length = request.find("Content-Length: ");
    if (end == std::string::npos || length == std::string::npos) return false;
    return request.size() >= end + 4 + std::stoul(request.substr(length + 16));
  }

  int listener_ = -1;
  std::string root_;
  std::thread thread_;
  std::vector<std::string> requests_;
};

std::string body_of(const std::string& request) {
  return request.substr(request.find("\r\n\r\n") + 4);
}

/// Of a form's text.
std::string decoded(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i] == '+' ? ' ' : text[i];
    } else {
      plain += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    }
  }
  return plain;
}

History train_monitored(const callbacks::RemoteMonitorOptions& options, int epochs) {
  Sequential model(Input({1}), {layers::Dense(1)});
  model.compile({.optimizer = optimizers::SGD({.learning_rate = 0.1}), .loss = "mse"});
  const auto rows = data::Dataset::from_tensor_slices({at::ones({4, 1}), at::ones({4, 1})});
  return model.fit(
      rows.batch(2),
      {.epochs = epochs, .callbacks = {callbacks::RemoteMonitor(options)}, .verbose = 0});
}

TEST(RemoteMonitorTest, SendsAFormForEachEpoch) {
  MonitorServer server(2, Manner::kAnswers);
  const History history =
      train_monitored({.root = server.root(), .headers = {{"X-Run", "seven"}}}, 2);
  const auto& requests = server.requests();
  ASSERT_EQ(requests.size(), 2U);
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    const std::string& request = requests[epoch];
    EXPECT_TRUE(request.starts_with("POST /publish/epoch/end/ HTTP/1.1\r\n")) << request;
    EXPECT_NE(request.find("\r\nContent-Type: application/x-www-form-urlencoded\r\n"),
              std::string::npos);
    EXPECT_NE(request.find("\r\nX-Run: seven\r\n"), std::string::npos);
    const std::string body = body_of(request);
    ASSERT_TRUE(body.starts_with("data=%7B%22epoch%22")) << body;
    const Json values = Json::parse(decoded(body.substr(5)));
    EXPECT_EQ(values.at("epoch").as_int(), static_cast<int64_t>(epoch));
    EXPECT_EQ(values.at("loss").as_double(), history["loss"][epoch]);
  }
}

TEST(RemoteMonitorTest, SendsJson) {
  MonitorServer server(1, Manner::kAnswers);
  const History history =
      train_monitored({.root = server.root(), .path = "/here", .send_as_json = true}, 1);
  const std::string request = server.requests().at(0);
  EXPECT_TRUE(request.starts_with("POST /here HTTP/1.1\r\n")) << request;
  EXPECT_NE(request.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
  EXPECT_EQ(Json::parse(body_of(request)).at("loss").as_double(), history["loss"][0]);
}

TEST(RemoteMonitorTest, GoesOnWhateverTheServerAnswers) {
  MonitorServer server(1, Manner::kRefuses);
  EXPECT_EQ(train_monitored({.root = server.root()}, 1)["loss"].size(), 1U);
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST(RemoteMonitorTest, ASilentServerIsAWarningAfterTheTimeout) {
  test::LogLines lines;
  MonitorServer server(1, Manner::kIsSilent);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(train_monitored({.root = server.root(), .timeout = 300ms}, 1)["loss"].size(), 1U);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 30s);
  EXPECT_NE(lines.await({"[callbacks] RemoteMonitor: the values of epoch 0 were not sent, and "
                         "training continues: [core] POST " +
                         server.root() + "/publish/epoch/end/"}),
            "");
}

TEST(RemoteMonitorTest, NoServerIsAWarning) {
  std::string root;
  {
    const MonitorServer gone(0, Manner::kAnswers);
    root = gone.root();
  }
  test::LogLines lines;
  EXPECT_EQ(train_monitored({.root = root}, 1)["loss"].size(), 1U);
  EXPECT_NE(lines.await({"RemoteMonitor: the values of epoch 0 were not sent", root}), "");
}

TEST(RemoteMonitorTest, ErrorsNameTheOption) {
  expect_error([] { callbacks::RemoteMonitor({.root = "localhost"}); }, ErrorCode::kInvalidArgument,
               "[callbacks] RemoteMonitor: got the root 'localhost'; expected a URL such as "
               "http://localhost:9000");
  expect_error([] { callbacks::RemoteMonitor({.timeout = 0ms}); }, ErrorCode::kInvalidArgument,
               "[callbacks] RemoteMonitor: got a timeout of 0 ms; expected more than 0");
}

}  // namespace
}  // namespace strata::keras
