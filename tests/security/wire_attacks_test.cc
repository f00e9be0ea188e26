// What strangers on the network can do to a task that listens: nothing, with few lines in the log.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "wire/handshake/handshake_message.h"
#include "wire/raw_socket.h"
#include "wire/server.h"

namespace strata::wire {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

TEST(WireAttacksTest, ProbesDoNotSilenceRefusals) {
  const LogLines log;
  SocketWires wires;
  EchoServer server(wires, 1);
  for (int i = 0; i < 200; ++i) {
    const RawSocket probe(server.address());
    probe.send_nothing_more();
    EXPECT_EQ(probe.receive(), "");
  }
  for (int i = 0; i < 5; ++i) {
    const RawSocket stranger(server.address());
    EXPECT_TRUE(stranger.send("GET / HTTP/1.1\r\n"));
    EXPECT_EQ(stranger.receive(), "");
  }
  // A line may come after its connection has ended.
  const Deadline limit = soon();
  while (count(log.text(), "no strata handshake") < 5 && !limit.passed()) std::this_thread::yield();
  EXPECT_EQ(count(log.text(), "no strata handshake"), 5U) << log.text();
}

TEST(WireAttacksTest, NamesThatAreNoTextAreRefusedAndSpelledOut) {
  const LogLines log;
  SocketWires wires;
  EchoServer server(wires, 1);
  Hello hello = hello_of(0);
  hello.task = "x\nE 2026-01-01 forged] all is well\x1b[2J";
  const RawSocket stranger(server.address());
  EXPECT_TRUE(stranger.send(encode_hello({.hello = hello})));
  (void)stranger.receive();
  EXPECT_TRUE(log.has("x\\x0aE 2026-01-01 forged] all is well\\x1b[2J")) << log.text();
  EXPECT_EQ(log.text().find('\x1b'), std::string::npos);
  EXPECT_EQ(log.text().find("\nE 2026"), std::string::npos);
}

TEST(WireAttacksTest, RefusalsBringFewLines) {
  const LogLines log;
  SocketWires wires;
  EchoServer server(wires, 1);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; ++i) {
    const RawSocket stranger(server.address());
    EXPECT_TRUE(stranger.send("GET / HTTP/1.1\r\n"));
    EXPECT_EQ(stranger.receive(), "");
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LE(static_cast<double>(count(log.text(), "refused 127")), 10 * (took.count() + 2));
  EchoServer::visit(*wires.transport(0), server.address(), 0);
}

/// 200 connections that say nothing, then one that greets as a task of the job does, from another
/// process. @return the first byte of the answer, 0: none came.
char answer_behind_idle(const Address& address, const std::string& hello) {
  int pipe_fds[2];
  EXPECT_EQ(::pipe(pipe_fds), 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(address.port);
  const pid_t child = ::fork();
  if (child == 0) {  // system calls alone: the parent has threads
    rlimit limit = {.rlim_cur = 512, .rlim_max = 512};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 512);
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::alarm(60);
    for (int i = 0; i < 200; ++i) {
      const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) ::_exit(1);
    }
    char byte = 0;
    for (int i = 0; i < 40 && byte == 0; ++i) {  // as Transport::connect: again until it is heard
      const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) ::_exit(2);
      if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) continue;
      pollfd wait = {.fd = fd, .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 1000) > 0 && ::recv(fd, &byte, 1, 0) != 1) byte = 0;
    }
    ::_exit(::write(pipe_fds[1], &byte, 1) == 1 ? 0 : 3);
  }
  ::close(pipe_fds[1]);
  char byte = 0;
  EXPECT_EQ(::read(pipe_fds[0], &byte, 1), 1);
  ::close(pipe_fds[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  return byte;
}

TEST(WireAttacksTest, OutOfDescriptorsItRestsAndSaysSo) {
  const LogLines log;
  SocketWires wires;
  EchoServer server(wires, 1);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 40;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const auto start = std::chrono::steady_clock::now();
  const char answer = answer_behind_idle(server.address(), encode_hello({.hello = hello_of(0)}));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  // The program itself takes all descriptors, those of peers that leave among them: then none can
  // be turned away for another.
  std::vector<FileDescriptor> own;
  const Deadline limit = soon();
  while (log.text().find("no peer can be admitted") == std::string::npos && !limit.passed()) {
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd = 0; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) own.emplace_back(fd);
    rlimit room = few;
    room.rlim_cur = few.rlim_cur + 1;  // for the stranger itself
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &room), 0);
    const RawSocket stranger(server.address());
    std::this_thread::yield();
  }
  own.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(answer, 's');  // of "strata"
  EXPECT_NE(log.text().find("raise `ulimit -n`"), std::string::npos) << log.text();
  const auto lines = static_cast<double>(std::ranges::count(log.text(), '\n'));
  EXPECT_LE(lines, 10 * (took.count() + 5));
  EchoServer::visit(*wires.transport(0), server.address(), 0);
}

}  // namespace
}  // namespace strata::wire
