//! Numbers as text: whole ones are written without C's `sprintf`, and have the same text.

use crate::support::eval;

#[test]
fn whole_numbers_are_written_as_c_writes_them() {
    for (number, expected) in [
        ("1", "1"),
        ("-1", "-1"),
        ("0", "0"),
        ("0 / -1", "-0"),
        ("10", "10"),
        ("-1000000", "-1000000"),
        ("2^31", "2147483648"),
        ("-2^31 - 1", "-2147483649"),
        ("99999999999999", "99999999999999"),
        ("-99999999999999", "-99999999999999"),
        ("99999999999998.5", "99999999999998"),
        ("1e14", "1e+14"),
        ("-1e14", "-1e+14"),
        ("100000000000001", "1e+14"),
        ("2^53", "9.007199254741e+15"),
        ("2^63", "9.2233720368548e+18"),
        ("-2^63", "-9.2233720368548e+18"),
        ("0.1", "0.1"),
        ("-1.5", "-1.5"),
        ("1e-7", "1e-07"),
        ("1 / 0", "inf"),
        ("-1 / 0", "-inf"),
    ] {
        let shown = format!("{expected:?}");
        assert_eq!(eval(&format!("return tostring({number})")), shown, "{number}");
        assert_eq!(eval(&format!("return '' .. {number}")), shown, "{number}");
        assert_eq!(eval(&format!("return table.concat({{{number}}})")), shown, "{number}");
    }
}

#[test]
fn all_numbers_are_written_with_fourteen_digits() {
    let script = "local wrong, random = {}, 1
        local function check(number)
            local expected = string.format('%.14g', number)
            if number .. '' ~= expected or tostring(-number) ~= string.format('%.14g', -number)
            then wrong[#wrong + 1] = expected end
        end
        for exponent = 0, 20 do
            for _, more in ipairs { -1.5, -1, -0.5, 0, 0.5, 1, 1.5 } do
                check(10 ^ exponent + more) check(2 ^ (3 * exponent) + more)
            end
            for _ = 1, 1000 do
                random = (random * 16807) % 2147483647
                check(math.floor(10 ^ exponent * random / 2147483647))
                check(10 ^ exponent * random / 2147483647)
            end
        end
        for number = 0, 20000 do check(number) end
        return table.concat(wrong, ' ')";
    assert_eq!(eval(script), "\"\"");
}
