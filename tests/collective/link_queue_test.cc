#include "collective/wire/link_queue.h"

#include <gtest/gtest.h>

#include <map>

namespace strata::collective {
namespace {

class FakeOperation final : public wire::detail::Operation {
 public:
  void cancel() override { end(); }
  std::string describe() const override { return "a transfer"; }
  void arrive(size_t bytes) { set_arrived(bytes); }
  void end() { finish(Status()); }
};

class TransferLineTest : public testing::Test {
 protected:
  TransferLineTest() : transfers_(10), line_(transfers_, /*window=*/100) {}

  void advance() {
    line_.advance([this](size_t step) {
      auto* operation = new FakeOperation();
      operations_[step] = operation;
      return wire::Transfer(operation);
    });
  }
  std::vector<size_t> started() const {
    std::vector<size_t> steps;
    for (const auto& [step, operation] : operations_) steps.push_back(step);
    return steps;
  }

  std::map<size_t, FakeOperation*> operations_;  // by step; the transfers own them
  std::vector<wire::Transfer> transfers_;
  LinkQueue line_;
};

using Steps = std::vector<size_t>;

TEST_F(TransferLineTest, TheNextBeginsWhenLittleIsLeftOfTheOthers) {
  line_.add(2, 1000);
  line_.add(5, 1000);
  advance();
  EXPECT_EQ(started(), Steps{2});
  EXPECT_TRUE(line_.started(2));
  EXPECT_FALSE(line_.started(5));
  operations_[2]->arrive(899);
  advance();
  EXPECT_EQ(started(), Steps{2});
  operations_[2]->arrive(900);
  advance();
  EXPECT_EQ(started(), (Steps{2, 5}));
  EXPECT_TRUE(line_.all_started());
  EXPECT_EQ(line_.first(), 2u);
  operations_[2]->end();
  line_.add(7, 10);
  advance();
  EXPECT_EQ(line_.first(), 5u);
  EXPECT_FALSE(line_.started(7));
  operations_[5]->end();
  advance();
  EXPECT_TRUE(line_.started(7));
}

TEST_F(TransferLineTest, SmallOnesBeginTogether) {
  for (size_t step = 0; step < 4; ++step) line_.add(step, 40);
  advance();
  EXPECT_EQ(started(), (Steps{0, 1, 2}));  // the third when 80 were left
  operations_[1]->end();                   // before the first
  advance();
  EXPECT_EQ(started(), (Steps{0, 1, 2, 3}));
}

}  // namespace
}  // namespace strata::collective
