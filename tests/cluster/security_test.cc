// A job under TLS among strangers: they get nothing, are logged, and it goes on.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <signal.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>

#include "cluster/control_message.h"
#include "strata/cluster/server.h"
#include "support/expect_error.h"
#include "support/process_cluster.h"
#include "support/soak_setting.h"
#include "support/thread_cluster.h"
#include "wire/fuzz.h"
#include "wire/raw_socket.h"
#include "wire/relay.h"
#include "wire/server.h"

namespace strata::cluster {
namespace {

using test::soon;
using wire::Address;
using wire::Certificate;
using wire::Deadline;
using wire::RawSocket;
using namespace std::chrono_literals;

// Numbers that are easy to find in what a network has seen.
std::vector<float> gradients() {
  std::vector<float> numbers(30'000);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = 0.5f + 0.001f * static_cast<float>(i);
  return numbers;
}

bool has_gradients(const std::string& bytes) {
  const std::vector<float> numbers = gradients();
  constexpr size_t kRun = 16;
  for (size_t i = 0; i + kRun <= numbers.size(); i += kRun) {
    const std::string_view run(reinterpret_cast<const char*>(&numbers[i]), kRun * sizeof(float));
    if (bytes.find(run) != std::string::npos) return true;
    if (i == 4 * kRun) i = numbers.size() / 2;  // a few from the beginning and the middle
    if (i > numbers.size() / 2 + 4 * kRun) break;
  }
  return false;
}

// Two tasks that meet at barriers and exchange tensors until it goes. All that they say to each
// other passes through a relay.
class Job {
 public:
  explicit Job(bool tls)
      : ports_(test::free_ports(2)),
        network_({.host = "127.0.0.1", .port = static_cast<uint16_t>(ports_[0])}),
        spec_({{"worker", {network_.address().to_string(), str_cat("127.0.0.1:", ports_[1])}}}) {
    write_certificate(authority_, folder_.path(), "authority");
    for (int task = 0; task < 2; ++task) {
      const std::string name = str_cat("task", task);
      write_certificate(issue_certificate(authority_, wire::task_name(task)), folder_.path(), name);
      threads_[task] = Thread(name, [this, task, tls, name] {
        try {
          run(task, tls ? std::optional(files(name)) : std::nullopt);
        } catch (...) {
          outcomes_[task] = Status::from_current_exception();
        }
        ended_ = true;
      });
    }
    go_on();
  }
  ~Job() { end(); }

  const Certificate& authority() const { return authority_; }
  const ClusterSpec& spec() const { return spec_; }
  Address address(int task) const {
    return {.host = "127.0.0.1", .port = static_cast<uint16_t>(ports_[task])};
  }
  /// Where the certificate of `task` is, which `authority` has signed.
  wire::TlsOptions visitor(const Certificate& authority, int task,
                           const wire::CertificateOptions& options = {}) {
    const std::string name = str_cat("visitor", visitors_++);
    write_certificate(issue_certificate(authority, wire::task_name(task), options), folder_.path(),
                      name);
    return files(name);
  }

  /// Waits for three more rounds.
  void go_on() {
    const int until = rounds_ + 3;
    const Deadline limit = soon();
    while (rounds_ < until && !ended_ && !limit.passed()) std::this_thread::yield();
    EXPECT_GE(rounds_.load(), until);
    EXPECT_FALSE(ended_) << outcomes_[0].message() << "\n" << outcomes_[1].message();
  }
  /// The orderly end. @return what the network has seen.
  std::string end() {
    stop_ = true;
    for (int task = 0; task < 2; ++task) {
      if (threads_[task].joinable()) threads_[task].join();
      EXPECT_EQ(outcomes_[task].message(), "");
    }
    return network_.seen();
  }

 private:
  wire::TlsOptions files(const std::string& name) const {
    return {.authority_file = folder_.path() + "/authority.pem",
            .certificate_file = str_cat(folder_.path(), "/", name, ".pem"),
            .key_file = str_cat(folder_.path(), "/", name, ".key")};
  }

  void run(int task, const std::optional<wire::TlsOptions>& tls) {
    Server server(spec_, {"worker", task},
                  {.start_timeout = 30s,
                   .listen_address = address(task).to_string(),
                   .job = "contract",
                   .tls = tls});
    const auto peer = server.connect({"worker", 1 - task}, "data", soon());
    std::vector<float> local = gradients();
    std::vector<float> remote(local.size());
    std::byte last{};
    while (last == std::byte{0}) {
      server.barrier("round", soon());
      if (task == 0) last = static_cast<std::byte>(stop_.load());
      std::array<wire::Transfer, 3> transfers = {
          task == 0 ? peer->send({.id = 1}, {&last, 1}) : peer->receive({.id = 1}, {&last, 1}),
          peer->send({.id = 2}, std::as_bytes(std::span(local))),
          peer->receive({.id = 2}, std::as_writable_bytes(std::span(remote)))};
      server.transport().wait_all(transfers, soon()).throw_if_error();
      EXPECT_TRUE(local == remote);
      std::ranges::fill(remote, 0.0f);
      if (task == 0) ++rounds_;
    }
    EXPECT_EQ(server.generation(), 1u);
    EXPECT_TRUE(server.newcomers().empty());
    server.shutdown(soon());
  }

  const std::vector<int> ports_;
  wire::Relay network_;
  const ClusterSpec spec_;
  const test::TempFolder folder_;
  const Certificate authority_ = wire::make_authority("contract");
  int visitors_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<int> rounds_ = 0;
  Status outcomes_[2];
  Thread threads_[2];
};

// OpenSSL's own client; with a certificate, or without.
class SslClient {
 public:
  explicit SslClient(const std::optional<wire::TlsOptions>& files = std::nullopt)
      : context_(SSL_CTX_new(TLS_client_method())) {
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to sockets whose other end has been closed
    if (!files) return;
    SSL_CTX_use_certificate_chain_file(context_, files->certificate_file.c_str());
    SSL_CTX_use_PrivateKey_file(context_, files->key_file.c_str(), SSL_FILETYPE_PEM);
  }
  ~SslClient() { SSL_CTX_free(context_); }
  SslClient(const SslClient&) = delete;

  /// Says `text` under TLS. @return the answer, until the other side closes.
  std::string say(const RawSocket& socket, const std::string& text) const {
    SSL* const ssl = SSL_new(context_);
    SSL_set_fd(ssl, socket.fd());
    SSL_connect(ssl);  // its part ends before the server has judged it
    SSL_write(ssl, text.data(), static_cast<int>(text.size()));
    SSL_shutdown(ssl);
    socket.send_nothing_more();
    std::string answer;
    char bytes[1000];
    for (int came = 0; (came = SSL_read(ssl, bytes, sizeof bytes)) > 0;)
      answer.append(bytes, static_cast<size_t>(came));
    SSL_free(ssl);
    return answer;
  }

  /// What it says first.
  std::string client_hello() const {
    SSL* const ssl = SSL_new(context_);
    BIO* const in = BIO_new(BIO_s_mem());
    BIO* const out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    SSL_connect(ssl);
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out, &bytes);
    std::string hello(bytes, static_cast<size_t>(size));
    SSL_free(ssl);
    return hello;
  }

 private:
  SSL_CTX* const context_;
};

wire::Hello hello_for(int address_of, int task) {
  return wire::hello_of(task, address_of == 0 ? "control" : "data/data");
}

class SecurityTest : public testing::Test {
 protected:
  // At both tasks' doors, as `task`.
  void expect_refused(const wire::TlsOptions& files, int task, const std::string& told,
                      const std::string& logged) {
    const auto transport = wire::make_socket_transport({.tls = files});
    for (const int door : {0, 1}) {
      expect_error_containing(
          [&] { transport->connect(job_.address(door), hello_for(door, task), soon()); },
          ErrorCode::kUnauthenticated, told);
      EXPECT_TRUE(log_.has(logged)) << log_.text();
    }
    EXPECT_TRUE(log_.has("[wire] refused 127.0.0.1:"));
    job_.go_on();
  }

  const wire::LogLines log_;
  Job job_{true};
};

TEST_F(SecurityTest, WithoutACertificateNobodyGetsIn) {
  const SslClient nobody;
  for (const int door : {0, 1}) {
    EXPECT_EQ(nobody.say(RawSocket(job_.address(door)),
                         wire::encode_hello({.hello = hello_for(door, 1 - door)})),
              "");
    EXPECT_TRUE(log_.has("peer did not return a certificate")) << log_.text();
    const auto plain = wire::make_socket_transport();
    EXPECT_THROW(plain->connect(job_.address(door), hello_for(door, 1), Deadline::after(100ms)),
                 Error);
  }
  job_.go_on();
}

TEST_F(SecurityTest, AnotherAuthoritysCertificateDoesNotGetIn) {
  expect_refused(job_.visitor(wire::make_authority("contract"), 1), 1,
                 "TLS: ", "certificate verify failed");
}

TEST_F(SecurityTest, AnExpiredCertificateDoesNotGetIn) {
  const auto now = std::chrono::system_clock::now();
  expect_refused(job_.visitor(job_.authority(), 1, {.valid_from = now - 48h, .valid_for = 24h}), 1,
                 "expired", "certificate has expired");
}

TEST_F(SecurityTest, AnotherTasksCertificateDoesNotGetIn) {
  const wire::TlsOptions files = job_.visitor(job_.authority(), 7);
  expect_refused(files, 1,
                 "refused: its certificate is of worker-7.strata, but its hello names "
                 "/job:worker/task:1 (worker-1.strata)",
                 "its certificate is of worker-7.strata");
  // Nor does it take part as what it is.
  const auto transport = wire::make_socket_transport({.tls = files});
  expect_error_containing(
      [&] { transport->connect(job_.address(0), wire::hello_of(7, "data/data"), soon()); },
      ErrorCode::kPermissionDenied, "it is not in the cluster");
  std::vector<std::string> workers(8, "127.0.0.1:0");
  workers[0] = job_.address(0).to_string();
  expect_error_containing(
      [&] {
        Server(ClusterSpec({{"worker", workers}}), {"worker", 7},
               {.start_timeout = 20s, .members = {{"worker", 7}}, .job = "contract", .tls = files});
      },
      ErrorCode::kInvalidArgument, "got /job:worker/task:7, which is not in the leader's cluster");
  job_.go_on();
}

// How many strangers there are: all of them under `make soak`.
int strangers() { return static_cast<int>(test::soak_setting("STRATA_FUZZ_STRANGERS", 1000)); }

uint64_t fuzz_seed() { return test::soak_setting("STRATA_FUZZ_SEED", 1); }

std::string random_message(std::mt19937_64& random) {
  constexpr MessageKind kKinds[] = {
      MessageKind::kJoin,          MessageKind::kSet,     MessageKind::kGet,
      MessageKind::kCompareAndSet, MessageKind::kErase,   MessageKind::kBarrier,
      MessageKind::kHeartbeat,     MessageKind::kSuspect, MessageKind::kAbort,
      MessageKind::kCancel,        MessageKind::kReply,   MessageKind::kFailed,
      MessageKind::kJoinPending};
  const auto task = [&] { return wire::task_name(static_cast<int>(random() % 3)); };
  ControlMessage message;
  message.kind = kKinds[random() % std::size(kKinds)];
  message.request = random() % 4;
  message.generation = random() % 3;
  message.number = random() % 2;
  message.name = random() % 2 == 0 ? task() : wire::random_text(random() % 20, random);
  message.value = random() % 2 == 0 ? "{}" : wire::random_text(random() % 40, random);
  message.flag = random() % 2 == 0;
  message.timeout_ms = random() % 100;
  if (random() % 2 == 0) message.tasks.push_back({task(), "127.0.0.1:1"});
  std::string bytes = encode(message);
  switch (random() % 4) {
    case 0:
      return wire::random_text(random() % 100, random);
    case 1:
      return bytes.substr(0, random() % bytes.size());
    case 2:
      return wire::damaged(bytes, random);
    default:
      return bytes;
  }
}

// From one who was let in to the leader, and is not of the cluster.
void expect_nothing_for(wire::Transport& transport, const Address& address,
                        std::mt19937_64& random) {
  const auto connection = transport.connect(address, wire::hello_of(7, "control"), soon());
  try {
    for (int i = 0; i < 4; ++i) {
      connection->send_message(0, random_message(random));
      (void)transport.wait_until([&] { return !connection->status().ok(); },
                                 Deadline::after(1ms * (random() % 3)));
      while (const auto text = connection->try_receive_message(0)) {
        const ControlMessage answer = decode(*text);
        EXPECT_TRUE(answer.kind == MessageKind::kHeartbeatAck || answer.code != ErrorCode::kOk)
            << static_cast<uint32_t>(answer.kind);
        EXPECT_TRUE(answer.tasks.empty());
      }
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable) << error.what();
  }
}

TEST(SecurityFuzzTest, NoiseGetsNothingUnderTls) {
  const wire::LogLines log;
  Job job(true);
  std::mt19937_64 random(fuzz_seed());
  const std::string client_hello = SslClient().client_hello();
  const wire::TlsOptions files = job.visitor(job.authority(), 7);
  const SslClient insider(files);
  const auto transport = wire::make_socket_transport({.tls = files});
  const std::string hello = wire::encode_hello(
      {.hello = wire::hello_of(7, "control"), .eager_limit = 65536, .eager_budget = 1 << 20});
  const int all = strangers();
  for (int i = 0; i < all; ++i) {
    SCOPED_TRACE(i);
    const int door = static_cast<int>(random() % 2);
    const uint64_t kind = random() % 10;
    if (kind == 0) {  // with a certificate, as far as the hello
      const std::string answer =
          insider.say(RawSocket(job.address(door)), wire::almost_a_hello(hello, random));
      if (answer.empty()) continue;
      const auto heard = wire::decode_handshake_message(answer.substr(0, wire::kEnvelopeSize),
                                                        answer.substr(wire::kEnvelopeSize));
      ASSERT_TRUE(std::holds_alternative<Status>(heard));
    } else if (kind == 1) {
      expect_nothing_for(*transport, job.address(0), random);
    } else {
      const RawSocket stranger(job.address(door));
      std::string bytes = wire::random_text(random() % 200, random);
      if (kind < 8) bytes = wire::damaged(client_hello, random) + bytes;
      (void)stranger.send(bytes);
      stranger.send_nothing_more();
      // What a server says to any hello, and an alert; nothing of the job.
      const std::string answer = stranger.receive();
      for (const char* text : {"strata\x01", "/job:worker", "contract"})
        ASSERT_EQ(answer.find(text), std::string::npos) << text;
    }
    if (i % (all / 5) == 0) job.go_on();
  }
  job.go_on();
  EXPECT_TRUE(log.has("more like it before)"));
}

TEST(SecurityFuzzTest, NoiseGetsNothingWithoutTls) {
  const wire::LogLines quiet;
  Job job(false);
  std::mt19937_64 random(fuzz_seed() + 1);
  const std::string hello = wire::encode_hello(
      {.hello = wire::hello_of(7, "data/data"), .eager_limit = 65536, .eager_budget = 1 << 20});
  const auto transport = wire::make_socket_transport();
  const int all = strangers();
  for (int i = 0; i < all; ++i) {
    SCOPED_TRACE(i);
    if (random() % 10 == 0) {
      expect_nothing_for(*transport, job.address(0), random);
      continue;
    }
    const RawSocket stranger(job.address(static_cast<int>(random() % 2)));
    (void)stranger.send(wire::almost_a_hello(hello, random));
    stranger.send_nothing_more();
    const std::string answer = stranger.receive();
    if (answer.empty()) continue;
    const auto heard = wire::decode_handshake_message(answer.substr(0, wire::kEnvelopeSize),
                                                      answer.substr(wire::kEnvelopeSize));
    ASSERT_TRUE(std::holds_alternative<Status>(heard));
    if (i % (all / 5) == 0) job.go_on();
  }
  job.go_on();
}

TEST(CaptureTest, TheNetworkSeesNoTensorUnderTls) {
  const wire::LogLines quiet;
  const std::string open = Job(false).end();
  EXPECT_TRUE(has_gradients(open));  // or nothing would be seen at all
  EXPECT_NE(open.find("/job:worker/task:1"), std::string::npos);
  const std::string secret = Job(true).end();
  EXPECT_GT(secret.size(), gradients().size() * sizeof(float));
  EXPECT_FALSE(has_gradients(secret));
  for (const char* text : {"/job:worker", "contract", "round", "strata"})
    EXPECT_EQ(secret.find(text), std::string::npos) << text;
}

}  // namespace
}  // namespace strata::cluster
