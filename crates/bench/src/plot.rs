//! The figures as a picture: how far each is on the good side of its goal.

use crate::{Figure, Report};
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const LABELS: f64 = 330.0;
const ROW: f64 = 24.0;
const HEAD: f64 = 40.0;
const FOOT: f64 = 46.0;
/// The scale ends here; a better figure touches the end.
const MARGIN_MAX: f64 = 4.0;

/// An SVG of all figures: a bar for the median, a line for the range, and the goal at 1.
pub fn plot(reports: &[Report]) -> String {
    let figures: Vec<&Figure> = reports.iter().flat_map(|report| &report.figures).collect();
    let bottom = HEAD + ROW * figures.len() as f64;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    draw(&mut svg, reports, &figures, bottom).unwrap_or_default();
    svg
}

fn draw(svg: &mut String, reports: &[Report], figures: &[&Figure], bottom: f64) -> std::fmt::Result {
    let height = bottom + FOOT;
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">
<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>
<text x="8" y="20" font-size="14" fill="#222222">cortex bench: times better than the goal (1 = just met), median and range</text>"##
    )?;
    for step in 0..=4 {
        let x = x_of(f64::from(step));
        let (colour, width) = if step == 1 { ("#b00020", 1.5) } else { ("#dddddd", 1.0) };
        writeln!(
            svg,
            r#"<line x1="{x}" y1="{HEAD}" x2="{x}" y2="{bottom}" stroke="{colour}" stroke-width="{width}"/>
<text x="{x}" y="{}" text-anchor="middle" fill="{colour}">{step}</text>"#,
            bottom + 16.0
        )?;
    }
    for (row, figure) in figures.iter().enumerate() {
        bar(svg, figure, HEAD + ROW * row as f64)?;
    }
    if let Some(first) = reports.first() {
        writeln!(
            svg,
            r##"<text x="8" y="{}" fill="#666666">load average {:.1}, fdatasync p50 {:.2} ms</text>"##,
            bottom + 36.0,
            first.load_average(),
            first.fdatasync_p50_ms()[0]
        )?;
    }
    writeln!(svg, "</svg>")
}

fn bar(svg: &mut String, figure: &Figure, y: f64) -> std::fmt::Result {
    let margin = |ratio: f64| x_of(figure.goal.margin(ratio));
    let (left, middle) = (x_of(0.0), y + ROW / 2.0);
    let colour = if figure.goal.margin(figure.ratio) >= 1.0 { "#4a7fb5" } else { "#d98c3f" };
    let [one_end, other_end] = figure.range.map(margin);
    writeln!(
        svg,
        r##"<text x="{}" y="{}" text-anchor="end" fill="#222222">{}</text>
<rect x="{left}" y="{}" width="{}" height="{}" fill="{colour}"/>
<line x1="{one_end}" y1="{middle}" x2="{other_end}" y2="{middle}" stroke="#222222" stroke-width="2"/>
<text x="{}" y="{}" fill="#222222">{:.2}{}</text>"##,
        left - 8.0,
        middle + 4.0,
        escaped(&figure.what),
        y + 4.0,
        margin(figure.ratio) - left,
        ROW - 8.0,
        x_of(MARGIN_MAX) + 8.0,
        middle + 4.0,
        figure.ratio,
        figure.unit.as_str(),
    )
}

fn x_of(margin: f64) -> f64 {
    let right = WIDTH - 80.0;
    LABELS + (right - LABELS) * margin.clamp(0.0, MARGIN_MAX) / MARGIN_MAX
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
