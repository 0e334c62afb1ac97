// From the records of the tuner to those of the public headers.
#pragma once

#include "autotune/Records.h"
#include "kiln/cache.h"

namespace kiln::autotune {

inline cache::Time timeOf(const Measurement& m) {
  const Conditions& c = m.conditions;
  return {m.schedule, m.median,    m.low,  m.high,   m.ratio,
          m.ratioLow, m.ratioHigh, c.uuid, c.driver, c.host};
}

} // namespace kiln::autotune
