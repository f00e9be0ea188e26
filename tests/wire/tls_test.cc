// Who gets in under TLS, and what the network sees.
#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/expect_error.h"
#include "support/source_path.h"
#include "wire/handshake/handshake_message.h"
#include "wire/raw_socket.h"
#include "wire/relay.h"
#include "wire/server.h"
#include "wire/tcp/epoll_reactor.h"
#include "wire/tcp/tcp_stream.h"
#include "wire/tls/tls.h"
#include "wire/wires.h"

namespace strata::wire {
namespace {

using namespace std::chrono_literals;

// Files of a task whose certificate `authority` has signed, shown to a job of `trusted`.
class Visitor {
 public:
  Visitor(const Certificate& trusted, const Certificate& authority, int task,
          const CertificateOptions& options = {}) {
    write_certificate(trusted, folder_.path(), "authority");
    write_certificate(issue_certificate(authority, task_name(task), options), folder_.path(),
                      "mine");
    transport_ = make_socket_transport(
        {.tls = TlsOptions{.authority_file = folder_.path() + "/authority.pem",
                           .certificate_file = folder_.path() + "/mine.pem",
                           .key_file = folder_.path() + "/mine.key"}});
  }

  void expect_refused(const Address& address, int as_task, const std::string& part) const {
    expect_error_containing([&] { transport_->connect(address, hello_of(as_task), soon()); },
                            ErrorCode::kUnauthenticated, part);
  }
  Transport& transport() { return *transport_; }

 private:
  const test::TempFolder folder_;
  std::unique_ptr<Transport> transport_;
};

class TlsTest : public testing::Test {
 protected:
  void expect_open_for_the_right() {
    auto right = wires_.transport(5);
    EchoServer::visit(*right, server_.address(), 5);
    EXPECT_EQ(server_.came_in(), ++visits_);
  }

  LogLines log_;
  TlsWires wires_;
  EchoServer server_{wires_, 1};
  size_t visits_ = 0;
};

TEST_F(TlsTest, TheRightCertificateGetsIn) {
  Visitor right(wires_.authority(), wires_.authority(), 3);
  EchoServer::visit(right.transport(), server_.address(), 3);
}

TEST_F(TlsTest, WithoutACertificateNobodyGetsIn) {
  // TLS itself is spoken well, by OpenSSL's own client.
  SSL_CTX* context = SSL_CTX_new(TLS_client_method());
  SSL* ssl = SSL_new(context);
  const RawSocket socket(server_.address());
  SSL_set_fd(ssl, socket.fd());
  SSL_connect(ssl);  // the client's part ends before the server has judged it
  const std::string hello = encode_hello({.hello = hello_of(0)});
  SSL_write(ssl, hello.data(), static_cast<int>(hello.size()));
  char answer[100];
  EXPECT_LE(SSL_read(ssl, answer, sizeof answer), 0);
  SSL_free(ssl);
  SSL_CTX_free(context);
  EXPECT_TRUE(log_.has("peer did not return a certificate")) << log_.text();

  // Without TLS.
  auto plain = make_socket_transport();
  EXPECT_THROW(plain->connect(server_.address(), hello_of(0), Deadline::after(100ms)), Error);
  expect_open_for_the_right();
}

TEST_F(TlsTest, AnotherAuthoritysCertificateDoesNotGetIn) {
  const Certificate other = make_authority("contract");
  const Visitor stranger(wires_.authority(), other, 0);
  stranger.expect_refused(server_.address(), 0, "TLS: ");
  EXPECT_TRUE(log_.has("certificate verify failed")) << log_.text();
  // And one does not fall for another authority's server.
  const Visitor suspicious(other, wires_.authority(), 0);
  suspicious.expect_refused(server_.address(), 0, "certificate verify failed");
  expect_open_for_the_right();
}

TEST_F(TlsTest, AnExpiredCertificateDoesNotGetIn) {
  const auto now = std::chrono::system_clock::now();
  const Visitor late(wires_.authority(), wires_.authority(), 0,
                     {.valid_from = now - 48h, .valid_for = 24h});
  late.expect_refused(server_.address(), 0, "expired");
  EXPECT_TRUE(log_.has("certificate has expired")) << log_.text();
  const Visitor early(wires_.authority(), wires_.authority(), 0,
                      {.valid_from = now + 24h, .valid_for = 24h});
  early.expect_refused(server_.address(), 0, "TLS: ");
  EXPECT_TRUE(log_.has("certificate is not yet valid")) << log_.text();
  expect_open_for_the_right();
}

TEST_F(TlsTest, AnotherTasksCertificateDoesNotGetIn) {
  const Visitor impostor(wires_.authority(), wires_.authority(), 3);
  impostor.expect_refused(server_.address(), 2,
                          "refused: its certificate is of worker-3.strata, but its hello names "
                          "/job:worker/task:2 (worker-2.strata)");
  EXPECT_TRUE(log_.has("its certificate is of worker-3.strata")) << log_.text();

  // The one that answers is looked at, too.
  const test::TempFolder folder;
  write_certificate(wires_.authority(), folder.path(), "authority");
  write_certificate(issue_certificate(wires_.authority(), task_name(7)), folder.path(), "mine");
  auto false_server =
      make_socket_transport({.tls = TlsOptions{.authority_file = folder.path() + "/authority.pem",
                                               .certificate_file = folder.path() + "/mine.pem",
                                               .key_file = folder.path() + "/mine.key"}});
  const Address address = false_server->listen({.host = "127.0.0.1", .port = 0}, hello_of(1));
  std::stop_source stop;
  Thread serving("serving", [&] {
    EXPECT_NO_THROW(false_server->accept(soon()));  // it cannot see that the other turns away
  });
  auto right = wires_.transport(5);
  expect_error_containing([&] { right->connect(address, hello_of(5), soon()); },
                          ErrorCode::kUnauthenticated,
                          "its certificate is of worker-7.strata, but its hello names "
                          "/job:worker/task:1 (worker-1.strata)");
  serving.join();
  expect_open_for_the_right();
}

std::string what_is_seen(Wires& wires) {
  auto here = wires.transport(0);
  auto there = wires.transport(1);
  const Address address = there->listen(wires.place(1), hello_of(1));
  const Relay network(address);
  std::string tensor;
  while (tensor.size() < 300'000) tensor += "gradients of layer 7 ";
  std::vector<std::byte> received(tensor.size());
  Thread acceptor("acceptor", [&] {
    const auto connection = there->accept(soon());
    Transfer receive = connection->receive({}, received);
    EXPECT_EQ(there->wait(receive, soon()).message(), "");
    connection->close(soon());
  });
  const auto connection = here->connect(network.address(), hello_of(0), soon());
  connection->send_message(0, "gradients in text");
  Transfer send = connection->send({}, std::as_bytes(std::span(tensor)));
  EXPECT_EQ(here->wait(send, soon()).message(), "");
  connection->close(soon());
  acceptor.join();
  EXPECT_EQ(std::memcmp(received.data(), tensor.data(), tensor.size()), 0);
  return network.seen();
}

TEST_F(TlsTest, TheNetworkSeesNoPlaintext) {
  SocketWires plain;
  const std::string open = what_is_seen(plain);
  EXPECT_NE(open.find("gradients"), std::string::npos);  // or nothing would be seen at all
  const std::string secret = what_is_seen(wires_);
  EXPECT_GT(secret.size(), 300'000u);
  for (const char* text : {"gradients", "strata", "contract", "/job:worker"})
    EXPECT_EQ(secret.find(text), std::string::npos) << text;
}

// Sends `text` through TLS with a new key every so often. @return how many bytes were made of it.
uint64_t carry(const TlsOptions& files, uint64_t new_key_after, std::string_view text) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  EpollReactor reactor;
  const auto context = make_tls_context(files, new_key_after);
  std::unique_ptr<Stream> streams[2];
  for (const int i : {0, 1}) {
    streams[i] = context->secure(
        std::make_unique<TcpStream>(FileDescriptor(ends[i]), false, reactor), i == 0);
  }
  const Deadline limit = soon();
  for (bool ready = false; !ready && !limit.passed();) {
    ready = true;
    for (const auto& stream : streams) ready &= stream->establish() == Stream::Outcome::kMoved;
  }
  std::string came;
  size_t sent = 0;
  while (came.size() < text.size() && !limit.passed()) {
    const iovec out = {.iov_base = const_cast<char*>(text.data()) + sent,
                       .iov_len = text.size() - sent};
    sent += sent < text.size() ? streams[0]->write({&out, 1}).bytes : 0;
    streams[0]->flush();
    char bytes[65536];
    const iovec in = {.iov_base = bytes, .iov_len = sizeof bytes};
    came.append(bytes, streams[1]->read({&in, 1}).bytes);
  }
  EXPECT_TRUE(came == text);
  return streams[0]->bytes_produced();
}

TEST_F(TlsTest, KeysAreRenewedAndNothingIsLost) {
  (void)wires_.transport(1);
  const std::string text(3'000'000, 'x');
  const uint64_t with_one_key = carry(wires_.files("task1"), UINT64_MAX, text);
  const uint64_t with_many = carry(wires_.files("task1"), 50'000, text);
  EXPECT_GT(with_many, with_one_key + 40 * 16);  // each is a message of its own
}

TEST_F(TlsTest, FilesThatAreWrongAreQuoted) {
  const std::string folder = wires_.folder();
  (void)wires_.transport(1);
  (void)wires_.transport(2);
  const auto make = [&](const TlsOptions& files) {
    return [files] { make_socket_transport({.tls = files}); };
  };
  TlsOptions files = wires_.files("task1");
  files.authority_file = folder + "/nothing.pem";
  expect_error_containing(make(files), ErrorCode::kInvalidArgument,
                          "[wire] TLS: got authority_file " + folder + "/nothing.pem: ");
  files = wires_.files("task1");
  files.certificate_file = folder + "/task1.key";
  expect_error_containing(make(files), ErrorCode::kInvalidArgument,
                          "[wire] TLS: got certificate_file " + folder + "/task1.key: ");
  files = wires_.files("task1");
  files.key_file = folder + "/task2.key";
  expect_error_containing(make(files), ErrorCode::kInvalidArgument,
                          "[wire] TLS: got key_file " + folder + "/task2.key: ");
}

TEST_F(TlsTest, AKeyThatOthersCanOpenIsReported) {
  (void)wires_.transport(1);
  const TlsOptions files = wires_.files("task1");
  make_socket_transport({.tls = files});
  EXPECT_EQ(log_.text().find("chmod"), std::string::npos) << log_.text();
  for (const mode_t mode : {0640, 0604, 0666}) {
    SCOPED_TRACE(mode);
    const LogLines log;
    ASSERT_EQ(::chmod(files.key_file.c_str(), mode), 0);
    make_socket_transport({.tls = files});
    EXPECT_TRUE(log.has("[wire] TLS: got key_file " + files.key_file +
                        ", which other users of this host can open; chmod 600 " + files.key_file));
  }
}

TEST(CertificateTest, NamesTheTask) {
  EXPECT_EQ(certificate_name("/job:worker/task:12"), "worker-12.strata");
  EXPECT_EQ(certificate_name("/job:ps/replica:0/task:0"), "ps-0.strata");
  for (const char* wrong :
       {"", "worker", "/job:worker", "/task:1", "/job:worker/task:1/device:CPU:0"})
    expect_error([&] { certificate_name(wrong); },
                 str_cat("[wire] certificate: got task \"", wrong,
                         "\"; expected a name such as /job:worker/task:1"));
  const Certificate authority = make_authority("job");
  expect_error(
      [&] { issue_certificate(issue_certificate(authority, task_name(0)), task_name(1)); },
      "[wire] issue_certificate: got for /job:worker/task:1 something that is no authority "
      "with its key; make_authority makes one");
}

TEST(CertificateTest, OnlyTheOwnerReadsTheKey) {
  const test::TempFolder folder;
  write_certificate(make_authority("job"), folder.path() + "/certs", "authority");
  namespace fs = std::filesystem;
  const auto permissions = fs::status(folder.path() + "/certs/authority.key").permissions();
  EXPECT_EQ(permissions, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_TRUE(fs::exists(folder.path() + "/certs/authority.pem"));
}

// Found by fuzzing: nanoseconds until the year 9000 and more are beyond what the clock can count.
TEST(InspectCertificateTest, ADateBeyondTheClockIsItsLastMoment) {
  std::ifstream file(
      strata::test::source_path("tests/fuzz/corpus/certificate/crash-date-beyond-the-clock"));
  std::stringstream pem;
  pem << file.rdbuf();
  const CertificateInfo info = inspect_certificate(pem.str());
  EXPECT_GT(info.valid_until, std::chrono::system_clock::now());
}

}  // namespace
}  // namespace strata::wire
