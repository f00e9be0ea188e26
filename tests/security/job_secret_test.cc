// Without certificates: what a stranger tries who can reach a task, knows the job's name and the
// tasks', speaks the protocol, and has seen or even carried what others said; but not the secret.
#include "strata/wire/security.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "support/expect_error.h"
#include "wire/handshake/handshake_message.h"
#include "wire/handshake/proof.h"
#include "wire/raw_socket.h"
#include "wire/server.h"

namespace strata::wire {
namespace {

using std::chrono::seconds;

const std::string kDiffer =
    "the job secrets of /job:worker/task:0 and /job:worker/task:1 differ, or something between "
    "them changes what they send; set STRATA_JOB_SECRET_FILE to a copy of the same file for all "
    "tasks (or STRATA_JOB_SECRET, or the option job_secret)";

using Heard = std::variant<HelloMessage, Proof, Status>;

Heard decoded(std::string_view bytes) {
  return decode_handshake_message(bytes.substr(0, kEnvelopeSize), bytes.substr(kEnvelopeSize));
}

/// One end of a connection, spoken by hand.
class Stranger {
 public:
  explicit Stranger(const Address& to) : socket_(to) {}

  void send(const std::string& bytes) const { EXPECT_TRUE(socket_.send(bytes)); }
  void send_nothing_more() const { socket_.send_nothing_more(); }
  /// The next hello, proof or refusal as it came; empty: the other side has closed.
  std::string hear() const {
    std::string bytes = socket_.receive(kEnvelopeSize);
    if (bytes.size() < kEnvelopeSize) return {};
    return bytes + socket_.receive(handshake_message_size(bytes));
  }
  /// What the other side refuses it with; fails if it does something else.
  std::string refusal() const {
    const std::string bytes = hear();
    if (bytes.empty()) return "(closed)";
    const Heard heard = decoded(bytes);
    EXPECT_TRUE(std::holds_alternative<Status>(heard));
    return std::holds_alternative<Status>(heard) ? std::get<Status>(heard).message() : "";
  }
  bool closed() const { return socket_.receive(1).empty(); }

 private:
  const RawSocket socket_;
};

HelloMessage hello_message_of(int task, const std::string& purpose = "test") {
  HelloMessage hello = {.hello = hello_of(task, purpose),
                        .eager_limit = 65536,
                        .eager_budget = 1 << 20,
                        .proves = true};
  hello.nonce.fill('n');
  return hello;
}

class JobSecretAttackTest : public testing::Test {
 protected:
  /// The listener's proof and a session are what only a peer of the job gets.
  void expect_refused_after(const std::string& hello, const std::string& proof,
                            const std::string& why) {
    const Stranger stranger(server_.address());
    stranger.send(hello);
    ASSERT_TRUE(std::holds_alternative<HelloMessage>(decoded(stranger.hear())));
    stranger.send(proof);
    EXPECT_NE(stranger.refusal().find(why), std::string::npos);
    EXPECT_TRUE(stranger.closed());
  }
  void expect_open_for_the_right() {
    EchoServer::visit(*wires_.transport(0), server_.address(), 0);
    EXPECT_EQ(server_.came_in(), ++visits_);
  }
  /// Proves by hand that it knows the secret.
  std::string proof(const std::string& hello, const std::string& answer) const {
    return encode_proof({proof_of(End::kDialer, secret_, hello, answer)});
  }

  const JobSecret secret_ = JobSecret::random();
  const LogLines log_;
  SocketWires wires_{SocketOptions{.job_secret = secret_}};
  EchoServer server_{wires_, 1};
  size_t visits_ = 0;
};

TEST_F(JobSecretAttackTest, WithoutTheSecretNobodyGetsInWhateverFor) {
  const auto plain = make_socket_transport();
  const auto wrong = make_socket_transport({.job_secret = JobSecret::random()});
  for (const char* purpose : {"control", "data/collective", "ps", "ps-backup", "coordinator", ""}) {
    SCOPED_TRACE(purpose);
    const auto start = std::chrono::steady_clock::now();
    expect_error(
        [&] { plain->connect(server_.address(), hello_of(0, purpose), soon()); },
        ErrorCode::kUnauthenticated,
        str_cat("[wire] connect: ", server_.address().to_string(),
                " refused: /job:worker/task:0 has no job secret, and /job:worker/task:1 asks for "
                "one; set STRATA_JOB_SECRET_FILE to a copy of the same file for all tasks (or "
                "STRATA_JOB_SECRET, or the option job_secret)"));
    expect_error([&] { wrong->connect(server_.address(), hello_of(0, purpose), soon()); },
                 ErrorCode::kUnauthenticated,
                 str_cat("[wire] connect: ", server_.address().to_string(), " refused: ", kDiffer));
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(10));
  }
  EXPECT_TRUE(
      log_.has("/job:worker/task:0 has no job secret, and /job:worker/task:1 asks for one"));
  EXPECT_TRUE(log_.has(kDiffer));
  EXPECT_EQ(log_.text().find(secret_.reveal()), std::string::npos);
  expect_open_for_the_right();
}

TEST_F(JobSecretAttackTest, ATaskWithASecretDoesNotTalkToOneWithout) {
  SocketWires plain;
  EchoServer open(plain, 1);
  expect_error(
      [&] { wires_.transport(0)->connect(open.address(), hello_of(0), soon()); },
      ErrorCode::kUnauthenticated,
      str_cat("[wire] connect: ", open.address().to_string(),
              " refused: /job:worker/task:1 has no job secret, and /job:worker/task:0 asks "
              "for one; set STRATA_JOB_SECRET_FILE to a copy of the same file for all "
              "tasks (or STRATA_JOB_SECRET, or the option job_secret)"));
  EXPECT_EQ(open.came_in(), 0U);
}

TEST_F(JobSecretAttackTest, WhoSpeaksTheProtocolByHandWithTheSecretGetsIn) {
  const Stranger friend_of_the_job(server_.address());
  const std::string hello = encode_hello(hello_message_of(0));
  friend_of_the_job.send(hello);
  const std::string answer = friend_of_the_job.hear();
  friend_of_the_job.send(proof(hello, answer));
  const auto remote = decoded(friend_of_the_job.hear());
  ASSERT_TRUE(std::holds_alternative<Proof>(remote));
  EXPECT_EQ(std::get<Proof>(remote).bytes, proof_of(End::kListener, secret_, hello, answer));
  ++visits_;
  expect_open_for_the_right();
}

TEST_F(JobSecretAttackTest, ARecordedHandshakeIsGoodForNothing) {
  const std::string hello = encode_hello(hello_message_of(0));
  std::string recorded;
  {
    const Stranger peer(server_.address());
    peer.send(hello);
    recorded = proof(hello, peer.hear());
    peer.send(recorded);
    ASSERT_TRUE(std::holds_alternative<Proof>(decoded(peer.hear())));
    ++visits_;
  }
  for (int i = 0; i < 10; ++i) expect_refused_after(hello, recorded, kDiffer);
  expect_open_for_the_right();
}

TEST_F(JobSecretAttackTest, NoncesAreNeverTheSame) {
  std::set<std::string> nonces;
  for (int i = 0; i < 50; ++i) {
    const Stranger stranger(server_.address());
    stranger.send(encode_hello(hello_message_of(0)));
    const auto nonce = std::get<HelloMessage>(decoded(stranger.hear())).nonce;
    nonces.emplace(nonce.begin(), nonce.end());
  }
  EXPECT_EQ(nonces.size(), 50U);
  EXPECT_FALSE(nonces.contains(std::string(kNonceSize, '\0')));
}

TEST_F(JobSecretAttackTest, AHelloThatIsChangedOnTheWayFitsNoProof) {
  const std::string said = encode_hello(hello_message_of(0));
  const std::vector<std::pair<const char*, std::function<void(HelloMessage&)>>> changes = {
      {"task", [](HelloMessage& hello) { hello.hello.task = task_name(2); }},
      {"purpose", [](HelloMessage& hello) { hello.hello.purpose = "control"; }},
      {"generation", [](HelloMessage& hello) { hello.hello.generation = 9; }},
      {"limit", [](HelloMessage& hello) { hello.eager_limit = 1; }},
      {"budget", [](HelloMessage& hello) { hello.eager_budget = 1; }},
      {"nonce", [](HelloMessage& hello) { hello.nonce[31] ^= 1; }}};
  for (const auto& [what, change] : changes) {
    SCOPED_TRACE(what);
    HelloMessage other = hello_message_of(0);
    change(other);
    // As the dialer: its hello arrives as another one.
    {
      const Stranger man(server_.address());
      man.send(encode_hello(other));
      man.send(proof(said, man.hear()));
      EXPECT_NE(man.refusal().find("differ, or something between them changes"), std::string::npos);
    }
    // The listener's arrives as another one at the dialer.
    {
      const Stranger man(server_.address());
      man.send(said);
      auto answer = std::get<HelloMessage>(decoded(man.hear()));
      change(answer);
      man.send(proof(said, encode_hello(answer)));
      EXPECT_NE(man.refusal().find(kDiffer), std::string::npos);
    }
  }
  // Of another job it does not even get a hello.
  const Stranger man(server_.address());
  HelloMessage other = hello_message_of(0);
  other.hello.job = "another";
  man.send(encode_hello(other));
  EXPECT_NE(man.refusal().find("is of another job than"), std::string::npos);
  // Nor does a claim to have no secret, which would leave out the proof.
  const Stranger modest(server_.address());
  other = hello_message_of(0);
  other.proves = false;
  modest.send(encode_hello(other));
  EXPECT_NE(modest.refusal().find("has no job secret"), std::string::npos);
  expect_open_for_the_right();
}

TEST_F(JobSecretAttackTest, TruncatedAndMisplacedProofs) {
  const std::string hello = encode_hello(hello_message_of(0));
  for (size_t size = 0; size < kEnvelopeSize + 1 + kProofSize; size += 20) {
    const Stranger stranger(server_.address());
    stranger.send(hello);
    stranger.send(proof(hello, stranger.hear()).substr(0, size));
    stranger.send_nothing_more();
    EXPECT_TRUE(stranger.closed()) << size;
  }
  EXPECT_TRUE(log_.has("it closed the connection without a proof that it has the job's secret"));
  for (const std::string& other :
       {encode_proof({std::string(kProofSize - 1, 'x')}), encode_proof({""}), hello,
        encode_reject({ErrorCode::kAborted, "forged"}), std::string("GET / HTTP/1.1\r\n\r\n...")}) {
    const Stranger stranger(server_.address());
    stranger.send(hello);
    (void)stranger.hear();
    stranger.send(other);
    EXPECT_TRUE(stranger.closed());
  }
  EXPECT_TRUE(log_.has("it sent a second hello instead of a proof"));
  {
    const Stranger hasty(server_.address());
    hasty.send(encode_proof({std::string(kProofSize, 'x')}));
    EXPECT_TRUE(hasty.closed());
    EXPECT_TRUE(log_.has("it sent a proof before a hello"));
  }
  {
    const Stranger zeros(server_.address());
    zeros.send(hello);
    (void)zeros.hear();
    zeros.send(encode_proof({std::string(kProofSize, '\0')}));
    EXPECT_NE(zeros.refusal().find(kDiffer), std::string::npos);
  }
  expect_open_for_the_right();
}

TEST_F(JobSecretAttackTest, AFloodOfWrongProofsBringsFewLines) {
  const auto start = std::chrono::steady_clock::now();
  const std::string hello = encode_hello(hello_message_of(0));
  for (int i = 0; i < 500; ++i) {
    expect_refused_after(hello, encode_proof({std::string(kProofSize, static_cast<char>(i))}),
                         kDiffer);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto lines = std::ranges::count(log_.text(), '\n');
  EXPECT_GT(lines, 0);
  EXPECT_LE(static_cast<double>(lines), 10 * (took.count() + 2));
  expect_open_for_the_right();
}

TEST_F(JobSecretAttackTest, ManyThatGreetAndDoNotProveKeepNobodyOut) {
  const std::string hello = encode_hello(hello_message_of(0));
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 150; ++i) {  // more than there are places
    crowd.push_back(std::make_unique<Stranger>(server_.address()));
    crowd.back()->send(hello);
  }
  const auto start = std::chrono::steady_clock::now();
  expect_open_for_the_right();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(8));  // places are kept for 10 s
}

/// Connections as fast as they can be made, of which each sends `first` and then keeps its place
/// for as long as it may.
class Flood {
 public:
  Flood(const Address& to, std::string first)
      : thread_("flood", [this, to, first = std::move(first)](const std::stop_token& stop) {
          std::deque<RawSocket> open;
          while (!stop.stop_requested()) {
            if (open.size() < 500) {
              open.emplace_back(to);
              if (open.back().connected()) (void)open.back().send(first);
              ++produced_;
            }
            std::erase_if(open, [](const RawSocket& each) { return each.closed_by_peer(); });
          }
        }) {}
  size_t made() const { return produced_; }

 private:
  std::atomic<size_t> produced_ = 0;
  Thread thread_;
};

TEST_F(JobSecretAttackTest, AFloodKeepsNobodyOutWhateverItSays) {
  const std::string hello = encode_hello(hello_message_of(0));
  for (const std::string& first :
       {std::string(), hello, hello.substr(0, hello.size() / 2), std::string("GET /")}) {
    const Flood flood(server_.address(), first);
    const auto start = std::chrono::steady_clock::now();
    const Deadline limit = soon();
    while (flood.made() < 1000 && !limit.passed()) std::this_thread::yield();
    for (int i = 0; i < 5; ++i) expect_open_for_the_right();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 30) << flood.made() << " connections that begin with " << first.size()
                                << " bytes";
  }
  EXPECT_GT(std::ranges::count(log_.text(), '\n'), 0);
}

// What a task thinks of a peer is not for strangers; and they change nothing in it.
TEST(JobSecretOrderTest, ThePeerIsJudgedAfterItsProof) {
  const LogLines log;
  const JobSecret secret = JobSecret::random();
  const auto transport = make_socket_transport({.job_secret = secret});
  std::atomic<int> asked = 0;
  const Address address = transport->listen(
      {.host = "127.0.0.1", .port = 0}, hello_of(1), {.admit = [&](const Hello&, const Address&) {
        ++asked;
        return Status(ErrorCode::kPermissionDenied, "the leader is at 10.0.0.1");
      }});
  Thread server("server", [&](const std::stop_token& stop) {
    transport->wait_until([] { return false; }, soon(), stop);
  });
  const std::string hello = encode_hello(hello_message_of(0));
  {
    const Stranger stranger(address);
    stranger.send(hello);
    (void)stranger.hear();
    stranger.send(encode_proof({std::string(kProofSize, 'x')}));
    EXPECT_NE(stranger.refusal().find(kDiffer), std::string::npos);
  }
  EXPECT_EQ(asked, 0);
  {
    const Stranger peer(address);
    peer.send(hello);
    peer.send(encode_proof({proof_of(End::kDialer, secret, hello, peer.hear())}));
    EXPECT_EQ(peer.refusal(), "the leader is at 10.0.0.1");
  }
  EXPECT_EQ(asked, 1);
  server.request_stop();
}

/// A stranger at the address where a task is looked for.
class FalseTask {
 public:
  FalseTask() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 8), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    address_ = {.host = "127.0.0.1", .port = ntohs(address.sin_port)};
  }
  const Address& address() const { return address_; }

  /// The next that connects. @return its descriptor.
  FileDescriptor let_in() const {
    pollfd wait = {.fd = listener_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wait, 1, 30'000), 1);
    return FileDescriptor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  static std::string hear(const FileDescriptor& peer) {
    std::string bytes = read(peer, kEnvelopeSize);
    return bytes.size() < kEnvelopeSize ? "" : bytes + read(peer, handshake_message_size(bytes));
  }
  static void send(const FileDescriptor& peer, const std::string& bytes) {
    EXPECT_EQ(::send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

 private:
  static std::string read(const FileDescriptor& peer, size_t size) {
    std::string bytes(size, '\0');
    size_t came = 0;
    while (came < size) {
      pollfd wait = {.fd = peer.get(), .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 30'000) != 1) break;
      const ssize_t got = ::recv(peer.get(), bytes.data() + came, size - came, 0);
      if (got <= 0) break;
      came += static_cast<size_t>(got);
    }
    bytes.resize(came);
    return bytes;
  }

  FileDescriptor listener_;
  Address address_;
};

// It answers with `answer`, and sends the dialer's own proof back; or what `reply` makes of it.
void expect_not_taken_for_a_task(const std::function<std::string(const std::string&)>& answer,
                                 const std::function<std::string(const std::string&)>& reply,
                                 const std::string& why) {
  const JobSecret secret = JobSecret::random();
  const FalseTask imposter;
  Thread thread("imposter", [&] {
    const FileDescriptor peer = imposter.let_in();
    const std::string hello = FalseTask::hear(peer);
    EXPECT_TRUE(std::get<HelloMessage>(decoded(hello)).proves);
    FalseTask::send(peer, answer(hello));
    const std::string proof = FalseTask::hear(peer);
    if (proof.empty()) return;  // it has seen through the hello
    FalseTask::send(peer, reply(proof));
    EXPECT_EQ(FalseTask::hear(peer), "");
  });
  const auto dialer = make_socket_transport({.job_secret = secret});
  expect_error_containing([&] { dialer->connect(imposter.address(), hello_of(0), soon()); },
                          ErrorCode::kUnauthenticated, why);
  thread.join();
}

TEST(JobSecretImposterTest, TheDialersOwnProofIsNoneOfTheListeners) {
  const auto same = [](const std::string& bytes) { return bytes; };
  const auto task_1 = [](const std::string& bytes) {
    HelloMessage hello = std::get<HelloMessage>(decoded(bytes));  // with the dialer's nonce
    hello.hello = hello_of(1);
    return encode_hello(hello);
  };
  expect_not_taken_for_a_task(task_1, same, "the job secrets of /job:worker/task:1 and");
  expect_not_taken_for_a_task(same, same, "the job secrets of /job:worker/task:0 and");
}

TEST(JobSecretImposterTest, AListenerHasToProveItselfToo) {
  const auto task_1 = [](const std::string&) { return encode_hello(hello_message_of(1)); };
  expect_not_taken_for_a_task(
      task_1, [](const std::string&) { return encode_proof({std::string(kProofSize, 'x')}); },
      "the job secrets of /job:worker/task:1 and /job:worker/task:0 differ");
  // No proof is sent to one that has none to give.
  bool proved = false;
  expect_not_taken_for_a_task(
      [](const std::string&) {
        HelloMessage hello = hello_message_of(1);
        hello.proves = false;
        return encode_hello(hello);
      },
      [&](const std::string& proof) {
        proved = true;
        return proof;
      },
      "/job:worker/task:1 has no job secret, and /job:worker/task:0 asks for one");
  EXPECT_FALSE(proved);
}

}  // namespace
}  // namespace strata::wire
