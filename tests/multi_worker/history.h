#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace strata::test {

/// What the workers of a job say of its steps, over all of its starts: which of them count in the
/// end, and which samples those used. A step that was done after the state that the job went on
/// from later does not count: it was done again.
class JobHistory {
 public:
  /// @param output  Of one process, with the lines of strata_fault_trainer.
  void add(const std::string& output) {
    std::istringstream lines(output);
    Attempt* attempt = nullptr;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string what;
      int64_t number = 0;
      words >> what >> number;
      if (what == "attempt") {
        int64_t from = 0;
        words >> from;
        attempt = &attempts_[number];
        attempt->from.insert(from);
      } else if (what == "step" && attempt != nullptr) {
        Step& step = attempt->steps[number];
        std::string epoch;
        words >> epoch;
        step.epochs.insert(epoch);
        for (int64_t id = 0; words >> id;) step.samples.insert(id);
      }
    }
  }

  /// @return what is wrong with it; "" if each of `steps` steps counts once, and each of `samples`
  ///     samples is used once an epoch.
  std::string fault(int64_t steps, int64_t samples) const {
    std::map<int64_t, const Step*> final;
    for (const auto& [when, attempt] : attempts_) {
      if (attempt.from.size() != 1) return "workers went on from different steps";
      const int64_t from = *attempt.from.begin();
      final.erase(final.upper_bound(from), final.end());
      for (const auto& [number, step] : attempt.steps) {
        if (number <= from) return "step " + std::to_string(number) + " came twice";
        final[number] = &step;
      }
    }
    std::map<std::string, std::multiset<int64_t>> epochs;
    int64_t expected = 0;
    for (const auto& [number, step] : final) {
      if (number != ++expected) return "step " + std::to_string(expected) + " is missing";
      if (step->epochs.size() != 1) return "a step of two epochs: " + std::to_string(number);
      epochs[*step->epochs.begin()].insert(step->samples.begin(), step->samples.end());
    }
    if (expected != steps) return "the last step is " + std::to_string(expected);
    for (const auto& [epoch, used] : epochs) {
      for (int64_t id = 0; id < samples; ++id) {
        const size_t times = used.count(id);
        if (times == 1) continue;
        return "epoch " + epoch + " used sample " + std::to_string(id) + " " +
               std::to_string(times) + " times";
      }
    }
    return "";
  }

  int64_t attempts() const { return static_cast<int64_t>(attempts_.size()); }
  /// Whether it went on from a step that it had saved.
  bool resumed() const {
    for (const auto& entry : attempts_) {
      if (*entry.second.from.begin() > 0) return true;
    }
    return false;
  }

 private:
  struct Step {
    std::set<std::string> epochs;
    std::multiset<int64_t> samples;
  };
  struct Attempt {
    std::set<int64_t> from;
    std::map<int64_t, Step> steps;
  };

  std::map<int64_t, Attempt> attempts_;  // by time
};

}  // namespace strata::test
