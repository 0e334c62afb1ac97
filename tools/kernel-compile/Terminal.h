// What a person sees: text with a little colour, complaints. Colour appears on a terminal only, and
// never when NO_COLOR is set; pipes and files get plain text. What messages and documents hold may
// come from a stranger's store: control characters are written as "\x1b" (kiln::printable).
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace kiln::tool {

enum class Style { plain, bold, dim, good, warn, bad };

/// `text` in that style if the standard output takes colours.
std::string styled(Style style, std::string_view text);

/// Columns of the terminal that the standard output is, or that COLUMNS says; 0: no terminal.
std::size_t columns();

/// Whoever reads the standard output has closed it, as `| head` does: the program ends without a
/// word. No std::exception, so that nothing takes it for an error.
struct ClosedPipe {};

/// Writes to the standard output. Throws ClosedPipe, or kiln::Error(io) for a full disk, say. Of
/// what terminals obey only line feeds and the styles above pass: labels and names come from files.
void print(std::string_view text);
/// The same as it is, for what was asked for as a file: a cubin, generated text.
void printBytes(std::string_view bytes);
/// A document as --json prints it: in ASCII, whatever names and labels hold.
void printJson(const nlohmann::ordered_json& json);
/// One line "kernel-compile: error: ..." on the standard error; `text` may hold several lines.
void complain(std::string_view text);
/// The same with "warning:": nothing failed.
void warn(std::string_view text);
/// A line after a complaint: what to try.
void advise(std::string_view text);

/// 65,536
std::string grouped(long long number);

} // namespace kiln::tool
