#include "strata/keras/callbacks/progress_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>

#include "core/seconds.h"
#include "keras/training/default_callbacks.h"
#include "keras/training/training_run.h"

namespace strata {
namespace callbacks {
namespace {

using std::chrono::steady_clock;

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char buffer[200];
  std::va_list values;
  va_start(values, pattern);
  std::vsnprintf(buffer, sizeof buffer, pattern, values);
  va_end(values);
  return buffer;
}

std::string eta(double left) {
  const auto whole = static_cast<long long>(left);
  if (left > 3600) {
    return format("%lld:%02lld:%02lld", whole / 3600, whole % 3600 / 60, whole % 60);
  }
  if (left > 60) return format("%lld:%02lld", whole / 60, whole % 60);
  return format("%llds", whole);
}

std::string per_step(double time) {
  if (time >= 1 || time == 0) return format("%.0fs/step", time);
  if (time >= 1e-3) return format("%.0fms/step", time * 1e3);
  return format("%.0fus/step", time * 1e6);
}

std::string metrics(keras::Logs* logs) {
  std::string text;
  if (logs == nullptr) return text;
  for (const auto& [name, value] : logs->values()) {
    text += " - " + name + format(std::abs(value) > 1e-3 ? ": %.4f" : ": %.4e", printed(value));
  }
  return text;
}

std::string repeated(int64_t times) {
  std::string text;
  for (int64_t i = 0; i < times; ++i) text += "━";
  return text;
}

}  // namespace

ProgressBar::ProgressBar(const ProgressBarOptions& options) : options_(options) {
  if (options_.file == nullptr) options_.file = stdout;
}

ProgressBar::~ProgressBar() {
  if (!line_open_) return;
  std::fputc('\n', options_.file);
  std::fflush(options_.file);
}

void ProgressBar::start() {
  done_ = first_ = run().batch();
  started_ = steady_clock::now();
  after_first_.reset();
  painted_ = {};
  painted_width_ = 0;
}

void ProgressBar::on_epoch_begin(int64_t epoch) {
  start();
  if (run().verbose() == 1 || (run().verbose() == 2 && run().epochs() > 1)) {
    std::fprintf(options_.file, "Epoch %lld/%lld\n", static_cast<long long>(epoch + 1),
                 static_cast<long long>(run().epochs()));
  }
}
void ProgressBar::on_epoch_end(int64_t, keras::Logs& logs) { finish(&logs); }

void ProgressBar::on_test_begin() {
  if (!in_fit_) start();
}
void ProgressBar::on_test_batch_end(int64_t batch, keras::Logs& logs) {
  if (!in_fit_) update(batch + 1, &logs);
}
void ProgressBar::on_test_end(keras::Logs& logs) {
  if (!in_fit_) finish(&logs);
}

void ProgressBar::update(int64_t done, keras::Logs* logs) {
  done_ = done;
  const Time now = steady_clock::now();
  if (!after_first_) {  // the first step is slower than others
    after_first_ = now;
    first_ = done;
  }
  if (run().verbose() != 1 || now - painted_ < options_.interval) return;
  painted_ = now;
  paint(done, run().steps(), logs, false);
}

void ProgressBar::finish(keras::Logs* logs) {
  if (run().verbose() > 0) paint(done_, done_, logs, true);
}

void ProgressBar::paint(int64_t done, int64_t of, keras::Logs* logs, bool last) {
  const Time now = steady_clock::now();
  const double step =
      done > first_ && after_first_
          ? strata::detail::in_seconds(now - *after_first_) / static_cast<double>(done - first_)
      : done > 0 ? strata::detail::in_seconds(now - started_) / static_cast<double>(done)
                 : 0;
  const auto total = static_cast<long long>(of);
  const auto ready = static_cast<long long>(done);
  const std::string rate =
      run().batch_size() > 0 && step > 0
          ? format(" - %.0f examples/s", static_cast<double>(run().batch_size()) / step)
          : "";
  if (run().verbose() == 2) {
    std::fprintf(options_.file, "%lld/%lld - %.0fs - %s%s%s\n", ready, total,
                 strata::detail::in_seconds(now - started_), per_step(step).c_str(), rate.c_str(),
                 metrics(logs).c_str());
    std::fflush(options_.file);
    return;
  }
  std::string bar;
  size_t invisible = 0;  // bytes that take no column
  if (total > 0) {
    const int digits = static_cast<int>(std::to_string(total).size());
    const auto filled = static_cast<int64_t>(
        options_.width * std::min(1.0, static_cast<double>(done) / static_cast<double>(of)));
    bar = format("\x1b[1m%*lld/%lld\x1b[0m ", digits, ready, total);
    if (filled > 0) bar += "\x1b[32m" + repeated(filled) + "\x1b[0m";
    bar += "\x1b[37m" + repeated(options_.width - filled) + "\x1b[0m";
    invisible = 8 + (filled > 0 ? 9 : 0) + 9 + 2 * static_cast<size_t>(options_.width);
  } else {
    bar = format("%7lld/Unknown", ready);
  }
  const std::string time = total > 0 && !last
                               ? eta(step * static_cast<double>(of - done))
                               : format("%.0fs", strata::detail::in_seconds(now - started_));
  const std::string line =
      bar + " \x1b[1m" + time + "\x1b[0m " + per_step(step) + rate + metrics(logs);
  const size_t width = line.size() - invisible - 8;
  const size_t blank = painted_width_ > width ? painted_width_ - width : 0;
  painted_width_ = width;
  std::fprintf(options_.file, "\r%s%s%s", line.c_str(), std::string(blank, ' ').c_str(),
               last ? "\n" : "");
  line_open_ = !last;
  std::fflush(options_.file);
}

}  // namespace callbacks

void keras::detail::add_default_callbacks(Callbacks& callbacks, int verbose) {
  if (verbose == 0) return;
  for (const callbacks::CallbackRef& each : callbacks) {
    if (dynamic_cast<callbacks::ProgressBar*>(&*each) != nullptr) return;
  }
  callbacks.insert(callbacks.begin(), callbacks::ProgressBar());
}

}  // namespace strata
