// The sizes at which attention is compared with fp64: as long as the work allows, odd, and of
// queries and keys different ones.
#pragma once

#include "codegen/family/Shapes.h"

namespace kiln::attention {

std::vector<family::Shape> shapesOf(const family::ShapeRequest& request);

} // namespace kiln::attention
