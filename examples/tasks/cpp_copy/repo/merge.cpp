// Reads intervals, "begin end" on each line, and prints them merged where they overlap or touch.
#include <algorithm>
#include <iostream>
#include <vector>

struct Interval {
    int begin, end;
};

std::vector<Interval> merge(std::vector<Interval> intervals)
{
    std::sort(intervals.begin(), intervals.end(), [](auto a, auto b) { return a.begin < b.begin; });
    std::vector<Interval> merged;
    for (const Interval& interval : intervals) {
        if (merged.empty() || interval.begin > merged.back().end) {
            merged.push_back(interval);
            continue;
        }
        auto last = merged.back();
        last.end = std::max(last.end, interval.end);
    }
    return merged;
}

int main()
{
    std::vector<Interval> intervals;
    for (Interval next; std::cin >> next.begin >> next.end;)
        intervals.push_back(next);
    for (const Interval& interval : merge(intervals))
        std::cout << interval.begin << ' ' << interval.end << '\n';
}
