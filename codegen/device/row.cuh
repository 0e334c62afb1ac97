// Everything a kernel of the row family is made of.
#pragma once

#include "angle.cuh"
#include "columns.cuh"
#include "gather.cuh"
#include "move.cuh"
#include "online.cuh"
#include "random.cuh"
#include "reduce.cuh"
#include "tile.cuh"
#include "transpose.cuh"
#include "types.cuh"
