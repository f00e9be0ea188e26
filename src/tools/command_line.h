#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace strata::tools {

/// What `--help` prints around the options.
struct CommandHelp {
  std::string usage;          ///< "strata launch -n N [options] [--] PROGRAM [ARGUMENTS...]"
  std::string description;    ///< behind it
  std::string examples = {};  ///< at the end
};

/// What the command line has besides options.
enum class Operands {
  kWords,    ///< anywhere between the options; all words behind `--`
  kProgram,  ///< a program and its arguments: all words from the first one on, options among them
};

/// The options of a command, read and explained by CLI11. An option is declared with the variable
/// that it sets; of one that is given twice the last counts. Names are as in CLI11, "-n,--workers".
/// Errors name the option, what it got and what was expected; that of an unknown option also names
/// the nearest known one.
class CommandLine {
 public:
  /// @param command  For messages: "strata launch".
  CommandLine(std::string command, CommandHelp help, Operands operands = Operands::kWords);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Declared in the order in which the help lists them. Variables outlive `read`.
  // @param shown  The value in the help: "N".
  void flag(const std::string& names, const std::string& help, bool& to, bool meaning = true);
  void text(const std::string& names, const std::string& shown, const std::string& help,
            std::string& to);
  void list(const std::string& names, const std::string& shown, const std::string& help,
            std::vector<std::string>& to);  ///< "a,b" as its parts
  void number(const std::string& names, const std::string& shown, const std::string& help, int& to,
              int least);
  void number(const std::string& names, const std::string& shown, const std::string& help,
              int64_t& to, int64_t least);
  void seconds(const std::string& names, const std::string& shown, const std::string& help,
               std::chrono::duration<double>& to);  ///< 0 at least, "0.5" too
  void yes_or_no(const std::string& names, const std::string& help, bool& to);
  /// Any other: `take` gets each value that the option is given.
  void option(const std::string& names, const std::string& shown, const std::string& help,
              std::function<void(const std::string& value)> take);

  /// Sets the variables. @return false: --help is among the options, and nothing was set.
  /// @param words  What follows the command's name.
  /// @throws Error  kInvalidArgument: an option that is unknown, without a value, or with a wrong
  ///                one.
  bool read(std::vector<std::string> words);

  /// The words that are no options, after `read`.
  const std::vector<std::string>& operands() const { return operands_; }

  /// What --help prints.
  std::string help() const;

 private:
  struct Option;
  struct Parser;

  void set_operands(std::vector<std::string> remaining);
  [[noreturn]] void refuse_option(const std::string& word) const;
  [[noreturn]] void refuse_value(const std::vector<std::string>& words) const;

  std::string command_;
  std::unique_ptr<Parser> parser_;
  std::vector<std::string> operands_;
};

}  // namespace strata::tools
