#include "cluster/failure_detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "support/expect_error.h"

namespace strata::cluster {
namespace {

using namespace std::chrono_literals;
using TimePoint = FailureDetector::TimePoint;
using Peers = std::vector<FailureDetector::Peer>;

constexpr HeartbeatTiming kTiming = {
    .silence_limit = 8s, .heartbeat_interval = 1s, .forgives_suspension = true};

TimePoint at(Clock::Duration time) { return TimePoint(time); }

TEST(FailureDetectorTest, TimingFollowsFromTheLivenessInterval) {
  EXPECT_EQ(control_timing(10s).silence_limit, 9s);
  EXPECT_EQ(control_timing(10s).heartbeat_interval, 1s);
  EXPECT_EQ(control_timing(800ms).heartbeat_interval, 100ms);
  EXPECT_TRUE(control_timing(10s).forgives_suspension);
  EXPECT_EQ(table_timing(10s).silence_limit, 10s);
  EXPECT_EQ(table_timing(10s).heartbeat_interval, 2500ms);
  EXPECT_FALSE(table_timing(10s).forgives_suspension);
}

TEST(FailureDetectorTest, AShortLivenessIntervalIsRefused) {
  EXPECT_NO_THROW(check_liveness(kShortestLiveness, "[cluster] Server"));
  expect_error([] { check_liveness(99ms, "[cluster] Server"); }, ErrorCode::kInvalidArgument,
               "[cluster] Server: got a liveness interval of 0.099 s; expected 0.1 s at least");
}

TEST(FailureDetectorTest, ASilentPeerIsLostAtTheLimit) {
  FailureDetector detector(kTiming);
  EXPECT_EQ(detector.next_loss(), TimePoint::max());
  detector.add(3, at(1s));
  detector.add(1, at(2s));
  EXPECT_EQ(detector.next_loss(), at(9s));
  EXPECT_EQ(detector.lost(at(9s) - 1ns), Peers());
  EXPECT_EQ(detector.lost(at(9s)), Peers{3});
  EXPECT_TRUE(detector.is_lost(3, at(9s)));
  EXPECT_EQ(detector.silence(3, at(9s)), 8s);
  EXPECT_EQ(detector.lost(at(10s)), (Peers{1, 3}));
  detector.heard(3, at(10s));
  EXPECT_EQ(detector.lost(at(10s)), Peers{1});
  detector.remove(1);
  EXPECT_EQ(detector.lost(at(10s)), Peers());
  EXPECT_EQ(detector.next_loss(), at(18s));
}

TEST(FailureDetectorTest, OtherPeersDoNotMatter) {
  FailureDetector detector(kTiming);
  detector.heard(7, at(1s));
  detector.received(7, 100, at(1s));
  detector.remove(7);
  EXPECT_FALSE(detector.is_lost(7, at(100s)));
  EXPECT_EQ(detector.silence(7, at(100s)), 0s);
  EXPECT_EQ(detector.lost(at(100s)), Peers());
}

TEST(FailureDetectorTest, BytesOfATransferAreASignOfLife) {
  FailureDetector detector(kTiming);
  detector.add(0, at(0s));
  detector.received(0, 10, at(5s));
  EXPECT_EQ(detector.next_loss(), at(13s));
  detector.received(0, 10, at(9s));  // no more than before
  EXPECT_EQ(detector.next_loss(), at(13s));
  detector.received(0, 11, at(12s));
  EXPECT_EQ(detector.next_loss(), at(20s));
  detector.add(0, at(20s));  // a new connection, which counts from 0
  detector.received(0, 0, at(21s));
  EXPECT_EQ(detector.next_loss(), at(28s));
}

TEST(FailureDetectorTest, TimeOfASuspensionIsNoSilence) {
  FailureDetector detector(kTiming);
  detector.add(0, at(0s));
  EXPECT_EQ(detector.tick(at(5s)), 0s);  // the first: nothing is known of the time before
  EXPECT_EQ(detector.tick(at(9s)), 0s);  // half of the limit
  EXPECT_TRUE(detector.is_lost(0, at(9s)));
  detector.heard(0, at(9s));
  EXPECT_EQ(detector.tick(at(109s)), 100s);
  EXPECT_EQ(detector.silence(0, at(109s)), 0s);
  EXPECT_EQ(detector.next_loss(), at(117s));
}

TEST(FailureDetectorTest, TheFirstTickMayCountFromTheStart) {
  FailureDetector detector(kTiming, at(0s));
  detector.add(0, at(0s));
  EXPECT_EQ(detector.tick(at(5s)), 5s);
}

TEST(FailureDetectorTest, TablesForgiveNothing) {
  FailureDetector detector(table_timing(8s), at(0s));
  detector.add(0, at(0s));
  EXPECT_EQ(detector.tick(at(100s)), 0s);
  EXPECT_TRUE(detector.is_lost(0, at(100s)));
}

TEST(FailureDetectorTest, HeartbeatsAreDueOnceAnInterval) {
  FailureDetector detector(kTiming, at(3s));
  EXPECT_FALSE(detector.heartbeat_due(at(3s) - 1ns));
  EXPECT_TRUE(detector.heartbeat_due(at(3s)));
  detector.heartbeat_sent(at(3500ms));
  EXPECT_EQ(detector.next_heartbeat(), at(4500ms));
  EXPECT_FALSE(detector.heartbeat_due(at(4499ms)));
  EXPECT_TRUE(detector.heartbeat_due(at(5s)));
}

// A peer that sends at every other heartbeat is never lost, however this process is suspended; one
// that fell silent is lost once the running time since exceeds the limit, and not before.
TEST(FailureDetectorTest, RandomSequencesLoseTheSilentAndNoOther) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    TimePoint now = at(1000s);
    FailureDetector detector(kTiming, now);
    constexpr FailureDetector::Peer kPeers = 6;
    std::vector<Clock::Duration> ran(kPeers);  // since the peer was heard, suspensions left out
    std::set<FailureDetector::Peer> silent;
    for (FailureDetector::Peer peer = 0; peer < kPeers; ++peer) detector.add(peer, now);
    for (int step = 0; step < 300; ++step) {
      const bool suspended = random() % 20 == 0;
      const Clock::Duration gap =
          std::chrono::milliseconds(suspended ? 4001 + random() % 60'000 : 1 + random() % 1000);
      now += gap;
      EXPECT_EQ(detector.tick(now), suspended ? gap : 0s);
      for (FailureDetector::Peer peer = 0; peer < kPeers; ++peer) {
        if (!suspended) ran[peer] += gap;
        if (random() % 100 == 0) silent.insert(peer);
        if (silent.contains(peer) || (random() % 2 == 0 && ran[peer] < 6s)) continue;
        detector.heard(peer, now);
        ran[peer] = {};
      }
      Peers expected;
      Clock::Duration longest{};
      for (FailureDetector::Peer peer = 0; peer < kPeers; ++peer) {
        EXPECT_EQ(detector.silence(peer, now), ran[peer]);
        longest = std::max(longest, ran[peer]);
        if (ran[peer] >= kTiming.silence_limit) expected.push_back(peer);
      }
      ASSERT_EQ(detector.lost(now), expected) << "seed " << seed << ", step " << step;
      EXPECT_EQ(detector.next_loss(), now + kTiming.silence_limit - longest);
      for (const auto peer : expected) {
        EXPECT_TRUE(silent.contains(peer));
        detector.add(peer, now);  // it has come back
        silent.erase(peer);
        ran[peer] = {};
      }
    }
  }
}

}  // namespace
}  // namespace strata::cluster
