#include "strata/data/iterator.h"

#include <charconv>
#include <limits>

#include "strata/core/error.h"

namespace strata::data {

struct Position::Node {
  std::string kind;
  std::vector<int64_t> numbers;
  std::vector<Position> children;
};

namespace {

// Deeper than any pipeline, shallow enough for the stack.
constexpr int kMaxDepth = 1000;

bool is_kind_char(char c) { return (c >= 'a' && c <= 'z') || c == '_'; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Position parse() {
    Position position = parse_node(0);
    if (at_ != text_.size()) fail("the end");
    return position;
  }

 private:
  Position parse_node(int depth) {
    if (depth > kMaxDepth) fail("at most 1000 nested transforms");
    const size_t begin = at_;
    while (at_ < text_.size() && is_kind_char(text_[at_])) ++at_;
    if (at_ == begin) fail("a transform's name");
    std::string kind(text_.substr(begin, at_ - begin));

    std::vector<int64_t> numbers;
    if (accept('[')) {
      do {
        numbers.push_back(parse_number());
      } while (accept(','));
      if (!accept(']')) fail("',' or ']'");
    }
    std::vector<Position> children;
    if (accept('(')) {
      do {
        children.push_back(parse_node(depth + 1));
      } while (accept(','));
      if (!accept(')')) fail("',' or ')'");
    }
    return Position(std::move(kind), std::move(numbers), std::move(children));
  }

  int64_t parse_number() {
    int64_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a 64-bit number");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  bool accept(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  [[noreturn]] void fail(const char* expected) const {
    const std::string got = at_ < text_.size() ? str_cat("'", text_[at_], "'") : "the end";
    throw Error(ErrorCode::kInvalidArgument,
                str_cat("[data] Position::from_string: got ", got, " at offset ", at_, " of ",
                        text_.size(), "; expected ", expected, "; pass what to_string() gave"));
  }

  std::string_view text_;
  size_t at_ = 0;
};

void append(const Position& position, std::string& out) {
  out += position.kind();
  for (size_t i = 0; i < position.numbers().size(); ++i) {
    out += i == 0 ? '[' : ',';
    out += std::to_string(position.numbers()[i]);
  }
  if (!position.numbers().empty()) out += ']';
  for (size_t i = 0; i < position.children().size(); ++i) {
    out += i == 0 ? '(' : ',';
    append(position.children()[i], out);
  }
  if (!position.children().empty()) out += ')';
}

}  // namespace

Position::Position(std::string kind, std::vector<int64_t> numbers, std::vector<Position> children)
    : node_(std::make_shared<const Node>(
          Node{std::move(kind), std::move(numbers), std::move(children)})) {}

const Position::Node& Position::node() const {
  static const Node kEmpty;
  return node_ ? *node_ : kEmpty;
}

const std::string& Position::kind() const { return node().kind; }
const std::vector<int64_t>& Position::numbers() const { return node().numbers; }
const std::vector<Position>& Position::children() const { return node().children; }

std::string Position::to_string() const {
  std::string out;
  append(*this, out);
  return out;
}

Position Position::from_string(std::string_view text) {
  if (text.empty()) return {};
  return Parser(text).parse();
}

bool Position::equals(const Position& other) const {
  return node_ == other.node_ ||
         (kind() == other.kind() && numbers() == other.numbers() && children() == other.children());
}

}  // namespace strata::data
