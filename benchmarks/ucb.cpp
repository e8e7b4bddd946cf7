// UCB and UCB1-Double written by hand for one formula. Their time per stage is a practical lower limit
// with which `make bench` compares kibitz.
//
// The code exploits the form of the index, mean + sqrt(6 log t) / sqrt(n): sqrt(6 log t) and 1 / sqrt(n)
// come from tables, and an arm that is not observed costs one multiplication and one addition per stage.
// The code draws with xoshiro256++ and a ziggurat, so its random numbers differ from those of kibitz.

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

struct Generator {  // the generator xoshiro256++ of Blackman and Vigna
    uint64_t s[4];

    static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

    uint64_t bits() {
        const uint64_t value = rotate(s[0] + s[3], 23) + s[0], shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = rotate(s[3], 45);
        return value;
    }

    double uniform() { return (bits() >> 11) * 0x1.0p-53; }
};

struct Ziggurat {  // the ziggurat method of Marsaglia and Tsang, with 256 layers
    static constexpr double edge = 3.6541528853610088, area = 0.00492867323399;
    double x[257], height[257];

    Ziggurat() {
        x[0] = area / std::exp(-0.5 * edge * edge);
        x[1] = edge;
        for (int i = 2; i < 256; i++)
            x[i] = std::sqrt(-2 * std::log(area / x[i - 1] + std::exp(-0.5 * x[i - 1] * x[i - 1])));
        x[256] = 0;
        for (int i = 0; i < 257; i++) height[i] = std::exp(-0.5 * x[i] * x[i]);
    }

    double normal(Generator& from) const {
        for (;;) {
            const uint64_t value = from.bits();
            const int layer = value & 255;
            const double z = (2 * ((value >> 11) * 0x1.0p-53) - 1) * x[layer];
            if (std::fabs(z) < x[layer + 1]) return z;
            if (layer == 0) {
                double a, b;
                do {
                    a = -std::log1p(-from.uniform()) / edge;
                    b = -std::log1p(-from.uniform());
                } while (b + b < a * a);
                return z > 0 ? edge + a : -edge - a;
            }
            const double y = height[layer] + (height[layer + 1] - height[layer]) * from.uniform();
            if (y < std::exp(-0.5 * z * z)) return z;
        }
    }
};

const Ziggurat ziggurat;
constexpr int K = 5;
constexpr double means[K] = {2, 1.8, 1.5, 1, 0.5};

struct Tables {  // values for one horizon; an arm is observed at most twice per stage
    std::vector<double> widths, roots, inverses;

    explicit Tables(int64_t horizon) : widths(horizon + 1), roots(2 * horizon + 2), inverses(2 * horizon + 2) {
        for (int64_t t = 1; t <= horizon; t++) widths[t] = std::sqrt(6 * std::log((double)t));
        for (int64_t n = 1; n < 2 * horizon + 2; n++) {
            roots[n] = 1 / std::sqrt((double)n);
            inverses[n] = 1.0 / n;
        }
    }
};

struct Run {
    const Tables& tables;
    Generator& random;
    double sums[K] = {}, averages[K] = {}, widths[K] = {};
    int64_t counts[K] = {}, pulls[K] = {};

    void observe(int arm) {
        sums[arm] += means[arm] + ziggurat.normal(random);
        counts[arm]++;
        averages[arm] = sums[arm] * tables.inverses[counts[arm]];
        widths[arm] = tables.roots[counts[arm]];
    }

    double regret() const {
        double sum = 0;
        for (int arm = 0; arm < K; arm++) sum += pulls[arm] * (means[0] - means[arm]);
        return sum;
    }
};

}  // namespace

// Play runs of UCB (rate 0) or UCB1-Double (0 < rate < 1, the rate of looks). Record the regret at the given
// stages, which are in increasing order and end with the horizon.
extern "C" void play(int64_t runs, double rate, const int64_t* stages, int64_t n_stages, double* regret) {
    const int64_t horizon = stages[n_stages - 1], never = std::numeric_limits<int64_t>::max();
    const double expected_wait = rate > 0 ? -1 / std::log1p(-rate) : 0;
    static Tables tables(horizon);
    if ((int64_t)tables.widths.size() != horizon + 1) tables = Tables(horizon);
    Generator random{{1, 2, 3, 4}};
    for (int i = 0; i < 50; i++) random.bits();
    const auto wait = [&] { return 1 + (int64_t)(-std::log(1 - random.uniform()) * expected_wait); };
    for (int64_t number = 0; number < runs; number++) {
        Run run{tables, random};
        int64_t arrival = rate > 0 ? K + wait() : never;
        int64_t n_recorded = 0;
        for (int64_t stage = 1; stage <= horizon; stage++) {
            int best = 0, look = -1;
            if (stage <= K) {
                best = (int)stage - 1;
            } else {
                const double width = tables.widths[stage];
                double values[K], largest = values[0] = run.averages[0] + width * run.widths[0];
                for (int arm = 1; arm < K; arm++) {
                    values[arm] = run.averages[arm] + width * run.widths[arm];
                    if (values[arm] > largest) {
                        largest = values[arm];
                        best = arm;
                    }
                }
                if (stage == arrival) {
                    double second = -std::numeric_limits<double>::infinity();
                    for (int arm = 0; arm < K; arm++)
                        if (arm != best && values[arm] > second) {
                            second = values[arm];
                            look = arm;
                        }
                }
            }
            run.observe(best);
            run.pulls[best]++;
            if (look >= 0) {
                run.observe(look);
                arrival = stage + wait();
            }
            if (stage == stages[n_recorded]) regret[number * n_stages + n_recorded++] = run.regret();
        }
    }
}
