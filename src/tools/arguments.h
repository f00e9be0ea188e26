#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace strata::tools {

/// "a,b" as its parts.
std::vector<std::string> split_list(const std::string& text);

/// The words after a subcommand, read one after the other: `--name value` or `--name=value`.
class Arguments {
 public:
  /// @param command  For messages: "strata launch".
  Arguments(std::string command, std::vector<std::string> words);

  /// The next word; nullopt at the end. Of `--name=value` the name.
  std::optional<std::string> next();
  /// Whether the word that `next` gave is an option.
  bool is_option() const { return word_.size() > 1 && word_[0] == '-'; }

  // What belongs to the option that `next` gave.
  // @throws Error  kInvalidArgument, all of these: it does not exist, or it is something else.
  std::string value();
  int number(int least);
  std::chrono::milliseconds seconds();  ///< 0 at least, "0.5" too

  /// All words that are left.
  std::vector<std::string> rest();

  /// @throws Error  kInvalidArgument: that it is no option of the command.
  [[noreturn]] void refuse_option() const;

 private:
  std::string command_;
  std::vector<std::string> words_;
  size_t position_ = 0;
  std::string word_;
  std::optional<std::string> attached_;  // what stood behind `=`
};

}  // namespace strata::tools
