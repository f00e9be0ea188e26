#include "tools/arguments.h"

#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "strata/core/error.h"

namespace strata::tools {

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

Arguments::Arguments(std::string command, std::vector<std::string> words)
    : command_(std::move(command)), words_(std::move(words)) {}

std::optional<std::string> Arguments::next() {
  STRATA_CHECK(!attached_, kInvalidArgument, "[", command_, "] got ", word_, "=", *attached_,
               "; expected ", word_, " without a value");
  if (position_ == words_.size()) return std::nullopt;
  word_ = words_[position_++];
  const size_t equals = word_.find('=');
  if (word_.starts_with("--") && equals != std::string::npos) {
    attached_ = word_.substr(equals + 1);
    word_.resize(equals);
  }
  return word_;
}

std::string Arguments::value() {
  if (attached_) return *std::exchange(attached_, std::nullopt);
  STRATA_CHECK(position_ < words_.size(), kInvalidArgument, "[", command_, "] got ", word_,
               " without a value; see ", command_, " --help");
  return words_[position_++];
}

int Arguments::number(int least) {
  const std::string text = value();
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  STRATA_CHECK(error == std::errc() && stopped == end && number >= least, kInvalidArgument, "[",
               command_, "] got ", word_, " ", text, "; expected a number from ", least, " up");
  return number;
}

std::chrono::milliseconds Arguments::seconds() {
  const std::string text = value();
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  constexpr double kMost = 1e9;
  STRATA_CHECK(error == std::errc() && stopped == end && number >= 0 && number <= kMost,
               kInvalidArgument, "[", command_, "] got ", word_, " ", text,
               "; expected seconds, 0 or more");
  return std::chrono::milliseconds(std::llround(number * 1000));
}

std::vector<std::string> Arguments::rest() {
  std::vector<std::string> rest(words_.begin() + static_cast<std::ptrdiff_t>(position_),
                                words_.end());
  position_ = words_.size();
  return rest;
}

void Arguments::refuse_option() const {
  throw Error(
      ErrorCode::kInvalidArgument,
      str_cat("[", command_, "] got ", word_, "; expected an option of ", command_, " --help"));
}

}  // namespace strata::tools
