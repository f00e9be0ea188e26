#include "strata/core/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "strata/core/error.h"

namespace strata {
namespace {

constexpr int kMaxDepth = 200;  // of nested arrays and objects: the parser recurses

class Parser {
 public:
  Parser(std::string_view text, const ReadLimits& limits) : text_(text), left_(limits.parts) {}

  Json document() {
    Json value = this->value(0);
    skip_space();
    if (at_ != text_.size()) fail("the end");
    return value;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    const std::string found =
        at_ >= text_.size() ? "the end" : str_cat("'", text_.substr(at_, 12), "'");
    throw Error(ErrorCode::kDataLoss,
                str_cat("[core] JSON: got ", found, " at byte ", at_, "; expected ", expected));
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != text_.npos) ++at_;
  }

  bool take(char wanted) {
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  void take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail("a value");
    at_ += word.size();
  }

  Json value(int depth) {
    if (depth > kMaxDepth) fail("fewer nested arrays and objects");
    if (left_-- == 0) {
      throw Error(ErrorCode::kResourceExhausted,
                  str_cat("[core] JSON: got more values at byte ", at_,
                          " than ReadLimits::parts allows; raise it to read more"));
    }
    skip_space();
    if (at_ == text_.size()) fail("a value");
    switch (text_[at_]) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"':
        return string();
      case 't':
        take_word("true");
        return true;
      case 'f':
        take_word("false");
        return false;
      case 'n':
        take_word("null");
        return {};
      default:
        return number();
    }
  }

  Json object(int depth) {
    ++at_;
    Json::Object members;
    skip_space();
    if (take('}')) return members;
    while (true) {
      skip_space();
      if (at_ == text_.size() || text_[at_] != '"') fail("a member's name");
      std::string name = string();
      skip_space();
      if (!take(':')) fail("':'");
      members.emplace_back(std::move(name), value(depth + 1));
      skip_space();
      if (take('}')) break;
      if (!take(',')) fail("',' or '}'");
    }
    check_names(members);
    return members;
  }

  void check_names(const Json::Object& members) const {
    std::vector<std::string_view> names;
    for (const auto& member : members) names.push_back(member.first);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) fail(str_cat("the name '", *twice, "' once in the object before"));
  }

  Json array(int depth) {
    ++at_;
    Json::Array elements;
    skip_space();
    if (take(']')) return elements;
    while (true) {
      elements.push_back(value(depth + 1));
      skip_space();
      if (take(']')) return elements;
      if (!take(',')) fail("',' or ']'");
    }
  }

  unsigned hex4() {
    unsigned code = 0;
    const auto digits = text_.substr(at_, 4);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || end != digits.data() + 4) fail("four hexadecimal digits");
    at_ += 4;
    return code;
  }

  static void append_utf8(std::string& out, unsigned code) {
    if (code < 0x80) {
      out += static_cast<char>(code);
      return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr unsigned kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    out += static_cast<char>(kFirst[more] | code >> (6 * more));
    for (int i = more; i-- > 0;) out += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  }

  void escape(std::string& out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (take('u')) {
      unsigned code = hex4();
      if (code >= 0xD800 && code < 0xDC00) {
        if (!take('\\') || !take('u')) fail("the second half of a surrogate pair");
        const unsigned low = hex4();
        if (low < 0xDC00 || low > 0xDFFF) fail("the second half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else if (code >= 0xDC00 && code < 0xE000) {
        fail("the first half of a surrogate pair");
      }
      return append_utf8(out, code);
    }
    const size_t which = at_ < text_.size() ? kNames.find(text_[at_]) : kNames.npos;
    if (which == kNames.npos) fail("an escape of JSON");
    out += kMeanings[which];
    ++at_;
  }

  std::string string() {
    ++at_;
    std::string out;
    while (true) {
      if (at_ == text_.size()) fail("'\"'");
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) fail("no control character in a string");
      ++at_;
      if (c == '"') return out;
      if (c == '\\') {
        escape(out);
      } else {
        out += c;
      }
    }
  }

  size_t digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == begin) fail("a value");
    return at_ - begin;
  }

  Json number() {
    const size_t begin = at_;
    (void)take('-');
    const bool zero = at_ < text_.size() && text_[at_] == '0';
    if (digits() > 1 && zero) fail("no digits behind a leading zero");
    bool whole = true;
    if (take('.')) {
      whole = false;
      digits();
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('-')) (void)take('+');
      digits();
    }
    const std::string_view text = text_.substr(begin, at_ - begin);
    if (whole) {
      int64_t value = 0;
      const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
      if (parsed.ec == std::errc()) return value;
    }
    double value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec == std::errc()) return value;
    value = std::strtod(std::string(text).c_str(), nullptr);  // tells too small from too large
    at_ = std::isinf(value) ? begin : at_;
    if (std::isinf(value)) fail("a number that a double can hold");
    return value;
  }

  std::string_view text_;
  size_t at_ = 0;
  uint64_t left_;  // values
};

void write_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (code < 0x20) {
      out += "\\u00";
      out += kHex[code >> 4];
      out += kHex[code & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void write_double(std::string& out, double value) {
  STRATA_CHECK(std::isfinite(value), kInvalidArgument, "[core] JSON: got ", value,
               "; expected a finite number");
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  const std::string_view written(text, static_cast<size_t>(end - text));
  out += written;
  // So that it is read back as a double.
  if (written.find_first_of(".e") == written.npos) out += ".0";
}

class Writer {
 public:
  explicit Writer(int indent) : indent_(indent) {}

  void write(const Json& json, int depth) {
    if (json.is_null()) {
      out_ += "null";
    } else if (json.is_bool()) {
      out_ += json.as_bool() ? "true" : "false";
    } else if (json.is_int()) {
      out_ += std::to_string(json.as_int());
    } else if (json.is_number()) {
      write_double(out_, json.as_double());
    } else if (json.is_string()) {
      write_string(out_, json.as_string());
    } else if (json.is_array()) {
      write_array(json.as_array(), depth);
    } else {
      write_object(json.as_object(), depth);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void new_line(int depth) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<size_t>(indent_ * depth), ' ');
  }

  void write_array(const Json::Array& elements, int depth) {
    // A list of numbers stays on one line.
    const bool flat = std::none_of(elements.begin(), elements.end(), [](const Json& element) {
      return element.is_array() || element.is_object();
    });
    out_ += '[';
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) out_ += flat && indent_ >= 0 ? ", " : ",";
      if (!flat) new_line(depth + 1);
      write(elements[i], depth + 1);
    }
    if (!flat) new_line(depth);
    out_ += ']';
  }

  void write_object(const Json::Object& members, int depth) {
    out_ += '{';
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) out_ += ',';
      new_line(depth + 1);
      write_string(out_, members[i].first);
      out_ += indent_ >= 0 ? ": " : ":";
      write(members[i].second, depth + 1);
    }
    if (!members.empty()) new_line(depth);
    out_ += '}';
  }

  const int indent_;
  std::string out_;
};

constexpr std::string_view kTypes[] = {"null",     "a boolean", "an integer", "a number",
                                       "a string", "an array",  "an object"};

template <typename T, typename Variant>
const T& get(const Variant& value, std::string_view expected) {
  const T* found = std::get_if<T>(&value);
  STRATA_CHECK(found != nullptr, kDataLoss, "[core] JSON: got ", kTypes[value.index()],
               "; expected ", expected);
  return *found;
}

}  // namespace

Json Json::parse(std::string_view text, const ReadLimits& limits) {
  return Parser(text, limits).document();
}

std::string Json::dump(int indent) const {
  Writer writer(indent);
  writer.write(*this, 0);
  return writer.take();
}

bool Json::as_bool() const { return get<bool>(value_, "a boolean"); }
int64_t Json::as_int() const { return get<int64_t>(value_, "an integer"); }
double Json::as_double() const {
  return is_int() ? static_cast<double>(as_int()) : get<double>(value_, "a number");
}
const std::string& Json::as_string() const { return get<std::string>(value_, "a string"); }
const Json::Array& Json::as_array() const { return get<Array>(value_, "an array"); }
const Json::Object& Json::as_object() const { return get<Object>(value_, "an object"); }

const Json* Json::find(std::string_view name) const {
  for (const auto& [key, value] : as_object()) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Json& Json::at(std::string_view name) const {
  const Json* found = find(name);
  STRATA_CHECK(found != nullptr, kDataLoss, "[core] JSON: got an object without '", name,
               "'; expected that member");
  return *found;
}

Json& Json::set(std::string name, Json value) {
  auto& members = std::get<Object>(value_);
  for (auto& [key, old] : members) {
    if (key == name) {
      old = std::move(value);
      return *this;
    }
  }
  members.emplace_back(std::move(name), std::move(value));
  return *this;
}

Json& Json::push_back(Json value) {
  std::get<Array>(value_).push_back(std::move(value));
  return *this;
}

}  // namespace strata
