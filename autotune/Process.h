// Names of processes that last longer than they: who holds a lease, and whether it still can.
#pragma once

#include <string>
#include <string_view>

namespace kiln::autotune {

/// Of this process: host, number, when it began, the boot and the PID namespace in which all that
/// means something, and a random part, with colons between them. What is not known is empty.
std::string nameOfThisProcess();

/// Whether the process of such a name has ended for certain: it was one of this boot and PID
/// namespace, and its number is nobody's or belongs to one that began at another time. Of other
/// hosts, and of names of another form, nothing is certain.
bool hasEnded(std::string_view process);

} // namespace kiln::autotune
