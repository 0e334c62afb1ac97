// What the schedules of an attention kernel cost, and which there are: a roofline with a side of
// products, one of exponentials and one of bytes, and how well blocks fill the multiprocessors.
#pragma once

#include "codegen/families/attention/Schedule.h"
#include "codegen/model/Calibration.h"

namespace kiln::attention {

double bytesReadOf(const Facts& facts, double count);
double bytesWrittenOf(const Facts& facts, double count);
model::Work workOf(const Facts& facts, double count);
model::Cost costOf(const Schedule& schedule, const Facts& facts, const Target& target, double count,
                   const model::CostConstants& k = model::kCostConstants);
/// How many times the registers that a schedule leaves their estimate may be: 1, but where no
/// schedule fits so. The estimate is rough, and the assembler decides.
double registersTaken(const Facts& facts, const Target& target);
/// All schedules that fit, cheapest first.
model::Space spaceOf(const Facts& facts, const Target& target, double count,
                     model::Listing listing = model::Listing::explained);

} // namespace kiln::attention
