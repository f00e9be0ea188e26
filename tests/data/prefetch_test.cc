#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <atomic>
#include <chrono>
#include <semaphore>
#include <stdexcept>

#include "core/thread.h"
#include "data/elements.h"

namespace strata::data {
namespace {

constexpr auto kLong = std::chrono::seconds(30);

TEST(PrefetchTest, YieldsTheSame) {
  for (const int64_t buffer : {1, 2, 100}) {
    const Dataset dataset = Dataset::range(50).shuffle(7).batch(4);
    EXPECT_EQ(describe(dataset.prefetch(buffer), 3), describe(dataset, 3));
  }
  EXPECT_EQ(Dataset::range(5).prefetch().cardinality(), 5);
  expect_error(ErrorCode::kInvalidArgument, {"prefetch: got buffer_size 0"},
               [] { (void)Dataset::range(5).prefetch(0); });
}

TEST(PrefetchTest, IsNotPartOfThePosition) {
  const Dataset without = Dataset::range(50).shuffle(7).batch(4);
  Iterator reading = without.prefetch(3).iterator(1);
  for (int i = 0; i < 5; ++i) (void)reading.next();

  Iterator going_on = without.iterator(0);
  going_on.restore(reading.position());
  Iterator ahead_again = without.prefetch(2).iterator(0);
  ahead_again.restore(going_on.position());
  while (const std::optional<Example> expected = reading.next()) {
    EXPECT_TRUE(expected->x().equal(going_on.next()->x()));
    EXPECT_TRUE(expected->x().equal(ahead_again.next()->x()));
  }
  EXPECT_FALSE(going_on.next());
  EXPECT_FALSE(ahead_again.next());
}

// The second element is made although nobody has asked for it, and no more than the buffer holds.
TEST(PrefetchTest, RunsAheadAsFarAsTheBuffer) {
  std::counting_semaphore<100> made(0);
  std::atomic<int> count{0};
  const Dataset dataset = Dataset::range(100)
                              .map([&](Example e) {
                                ++count;
                                made.release();
                                return e;
                              })
                              .prefetch(3);
  Iterator iterator = dataset.iterator(0);
  EXPECT_EQ(count, 0);  // nothing before the first next
  (void)iterator.next();
  // One taken, three in the buffer, one in the producer's hand.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(made.try_acquire_for(kLong));
  EXPECT_EQ(count, 5);
}

TEST(PrefetchTest, ProducerIsNamedSingleThreadedAndLikeTheCaller) {
  const int threads_before = at::get_num_threads();
  std::string name;
  int threads = 0;
  bool grad = true;
  const Dataset dataset = Dataset::range(1)
                              .map([&](Example e) {
                                name = thread_name();
                                threads = at::get_num_threads();
                                grad = at::GradMode::is_enabled();
                                return e;
                              })
                              .prefetch();
  const at::NoGradGuard no_grad;
  (void)values_of(dataset);
  EXPECT_EQ(name, "strata-prefetch");
  EXPECT_EQ(threads, 1);
  EXPECT_FALSE(grad);
  EXPECT_EQ(at::get_num_threads(), threads_before);
}

TEST(PrefetchTest, ErrorsComeInTheirPlace) {
  const Dataset dataset = Dataset::range(4)
                              .map([](Example e) {
                                if (e.x().item<int64_t>() == 1) throw std::out_of_range("one");
                                return e;
                              })
                              .prefetch(2);
  Iterator iterator = dataset.iterator(0);
  EXPECT_EQ(describe(*iterator.next()), "Long[](0)");
  EXPECT_THROW((void)iterator.next(), std::out_of_range);
  const Position behind = iterator.position();
  EXPECT_EQ(describe(*iterator.next()), "Long[](2)");
  Iterator other = dataset.iterator(0);
  other.restore(behind);
  EXPECT_EQ(describe(*other.next()), "Long[](2)");
}

TEST(PrefetchTest, PositionIsTheConsumersNotTheProducers) {
  std::counting_semaphore<100> made(0);
  const Dataset plain = Dataset::range(20).shuffle(5).batch(2);
  const Dataset dataset = plain
                              .map([&](Example e) {
                                made.release();
                                return e;
                              })
                              .prefetch(4);
  Iterator iterator = dataset.iterator(1);
  (void)iterator.next();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(made.try_acquire_for(kLong));  // the producer is ahead
  Iterator restored = dataset.iterator(0);
  restored.restore(Position::from_string(iterator.position().to_string()));
  const auto all = describe(plain, 1);
  EXPECT_EQ(describe_rest(restored), std::vector<std::string>(all.begin() + 1, all.end()));
}

TEST(PrefetchTest, LeavesAtAnyMoment) {
  const Dataset dataset = Dataset::range(1000).repeat().prefetch(3).batch(2).prefetch(2);
  for (int taken = 0; taken < 20; ++taken) {
    Iterator iterator = dataset.iterator(0);
    for (int i = 0; i < taken; ++i) ASSERT_TRUE(iterator.next());
  }
}

TEST(PrefetchTest, EndStaysTheEnd) {
  Iterator iterator = Dataset::range(1).prefetch().iterator(0);
  EXPECT_TRUE(iterator.next());
  EXPECT_FALSE(iterator.next());
  EXPECT_FALSE(iterator.next());
  Iterator again = Dataset::range(1).prefetch().iterator(0);
  again.restore(iterator.position());
  EXPECT_FALSE(again.next());
}

}  // namespace
}  // namespace strata::data
