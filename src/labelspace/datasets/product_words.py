"""The words of the generated product catalogue: departments, categories, product types, and what
sellers add to them. Lists are ordered: what stands first is sold most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Category:
    """Kinds split every product type further; a type is `Label: noun, synonym, ...`."""

    kinds: str
    types: str


@dataclass(frozen=True)
class Department:
    """Styles split kinds further; sizes and extras only decorate titles."""

    styles: str
    sizes: str
    extras: str
    categories: dict[str, Category]


DEPARTMENTS = {
    "Electronics": Department(
        styles="Mini, Pro, Premium, Budget, Foldable, Long-Life",
        sizes="10 m cable, 2 m cable, 13 inch, 15 inch, 128 GB, 64 GB, 20 W, 5000 mAh",
        extras="charging case, microphone, carry bag, USB-C cable, remote control, fast charging",
        categories={
            "Audio": Category(
                "Wireless, Wired, Studio, Waterproof, Kids'",
                "Headphones: headphones, headset; Earbuds: earbuds, earphones, in-ear headphones; "
                "Speakers: speaker, loudspeaker; Sound Bars: sound bar; Microphones: microphone, "
                "mic; Radios: radio, DAB radio; Turntables: turntable, record player",
            ),
            "Phones": Category(
                "Magnetic, Slim, Rugged, Leather, Clear",
                "Phone Cases: phone case, case, cover; Chargers: charger, power adapter; Power "
                "Banks: power bank, battery pack; Screen Protectors: screen protector, glass "
                "film; Phone Stands: phone holder, stand; Smartphones: smartphone, mobile phone",
            ),
            "Computers": Category(
                "Gaming, Office, Portable, Silent, Refurbished",
                "Laptops: laptop, notebook; Keyboards: keyboard; Mice: mouse, computer mouse; "
                "Monitors: monitor, display, screen; Webcams: webcam, camera; Hard Drives: hard "
                "drive, SSD, storage; Printers: printer; Routers: router, WLAN router",
            ),
            "Cameras": Category(
                "Compact, Travel, Action, Vintage, Night-Vision",
                "Digital Cameras: digital camera, camera; Lenses: lens, zoom lens; Tripods: "
                "tripod, stand; Camera Bags: camera bag, bag; Binoculars: binoculars",
            ),
            "Wearables": Category(
                "Sports, Kids', Fashion, Medical, Swim",
                "Smart Watches: smart watch, watch; Fitness Trackers: fitness tracker, activity "
                "band; Watch Straps: watch strap, band; Smart Rings: smart ring, ring",
            ),
        },
    ),
    "Clothing": Department(
        styles="Cotton, Linen, Wool, Printed, Recycled, Oversized",
        sizes="size S, size M, size L, size XL, size 38, size 42, regular fit",
        extras="side pockets, hidden zip, adjustable waist, contrast stitching, gift box",
        categories={
            "Tops": Category(
                "Women's, Men's, Kids', Maternity, Plus-Size",
                "T-Shirts: t-shirt, tee; Shirts: shirt, blouse; Sweaters: sweater, jumper, "
                "pullover; Hoodies: hoodie, hooded sweatshirt; Polo Shirts: polo shirt, polo; "
                "Tank Tops: tank top, vest",
            ),
            "Bottoms": Category(
                "Men's, Women's, Kids', Stretch, High-Waist",
                "Jeans: jeans, denim trousers; Trousers: trousers, pants, chinos; Shorts: shorts; "
                "Skirts: skirt; Leggings: leggings, tights",
            ),
            "Outerwear": Category(
                "Waterproof, Men's, Women's, Kids', Padded",
                "Jackets: jacket; Coats: coat, parka; Raincoats: raincoat, rain jacket; Fleeces: "
                "fleece, fleece jacket; Gilets: gilet, body warmer, vest",
            ),
            "Sleepwear & Underwear": Category(
                "Women's, Men's, Kids', Thermal, Seamless",
                "Pyjamas: pyjamas, pajama set; Socks: socks; Briefs: briefs, underpants; Bras: "
                "bra; Robes: robe, dressing gown; Undershirts: undershirt, vest",
            ),
            "Accessories": Category(
                "Winter, Summer, Formal, Knitted, Leather",
                "Hats: hat, cap, beanie; Scarves: scarf, shawl; Gloves: gloves, mittens; Belts: "
                "belt; Ties: tie, bow tie; Bags: handbag, bag, tote",
            ),
        },
    ),
    "Footwear": Department(
        styles="Lightweight, Wide-Fit, Vegan, Cushioned, Classic, Slip-On",
        sizes="EU 38, EU 40, EU 42, EU 44, UK 6, UK 9",
        extras="memory foam insole, rubber sole, spare laces, reflective strips",
        categories={
            "Sports Shoes": Category(
                "Women's, Men's, Kids', Trail, Indoor",
                "Running Shoes: running shoes, runners; Trainers: trainers, sneakers; Football "
                "Boots: football boots, cleats; Tennis Shoes: tennis shoes; Hiking Shoes: hiking "
                "shoes, walking shoes",
            ),
            "Casual Shoes": Category(
                "Men's, Women's, Canvas, Suede, Kids'",
                "Sneakers: sneakers, trainers; Loafers: loafers, slip-on shoes; Boat Shoes: boat "
                "shoes; Ballerinas: ballerinas, flats; Espadrilles: espadrilles",
            ),
            "Boots": Category(
                "Winter, Leather, Work, Women's, Lined",
                "Ankle Boots: ankle boots, boots; Rain Boots: rain boots, wellies; Chelsea Boots: "
                "chelsea boots; Snow Boots: snow boots; Safety Boots: safety boots, work shoes",
            ),
            "Sandals & Slippers": Category(
                "Women's, Men's, Beach, Orthopaedic, Kids'",
                "Sandals: sandals; Flip-Flops: flip-flops, thongs; Slippers: slippers, house "
                "shoes; Clogs: clogs; Bath Shoes: bath shoes, pool slides",
            ),
            "Shoe Care": Category(
                "Leather, Suede, Universal, White, Travel",
                "Shoe Polish: shoe polish, cream; Insoles: insoles, inlays; Laces: laces, shoe "
                "strings; Shoe Brushes: shoe brush, brush; Shoe Trees: shoe trees",
            ),
        },
    ),
    "Kitchen": Department(
        styles="Large, Compact, Professional, Induction, Family, Dishwasher-Safe",
        sizes="20 cm, 24 cm, 28 cm, 1.7 L, 0.5 L, 1200 W, set of 4, set of 6",
        extras="glass lid, wooden handle, non-slip base, measuring cup, recipe book, storage box",
        categories={
            "Cookware": Category(
                "Stainless Steel, Non-Stick, Cast Iron, Copper, Ceramic",
                "Frying Pans: frying pan, skillet, pan; Saucepans: saucepan, pot; Woks: wok, stir "
                "fry pan; Casseroles: casserole, dutch oven; Pressure Cookers: pressure cooker",
            ),
            "Small Appliances": Category(
                "Electric, Stainless Steel, Retro, Digital, Cordless",
                "Kettles: kettle, water boiler; Toasters: toaster; Blenders: blender, smoothie "
                "maker; Coffee Machines: coffee machine, espresso maker; Mixers: mixer, stand "
                "mixer; Kitchen Scales: kitchen scales, scales; Air Fryers: air fryer",
            ),
            "Tableware": Category(
                "Porcelain, Glass, Stoneware, Bamboo, Melamine",
                "Plates: plate, dinner plate; Bowls: bowl, serving bowl; Mugs: mug, coffee cup; "
                "Glasses: glass, tumbler; Cutlery: cutlery set, flatware; Jugs: jug, carafe",
            ),
            "Food Storage": Category(
                "Airtight, Glass, Insulated, Stackable, Plastic",
                "Food Containers: food container, storage box; Lunch Boxes: lunch box, bento box; "
                "Water Bottles: water bottle, bottle, flask; Jars: jar, storage jar; Bread Bins: "
                "bread bin, bread box",
            ),
            "Baking": Category(
                "Silicone, Non-Stick, Glass, Aluminium, Wooden",
                "Cake Tins: cake tin, cake mould; Baking Trays: baking tray, oven tray; Rolling "
                "Pins: rolling pin; Mixing Bowls: mixing bowl, bowl; Cookie Cutters: cookie cutter",
            ),
        },
    ),
    "Home": Department(
        styles="Modern, Rustic, Scandinavian, Industrial, Vintage, Minimalist",
        sizes="120 x 60 cm, 140 x 200 cm, 50 x 50 cm, 160 cm, 40 W, set of 2",
        extras="storage drawer, washable cover, assembly kit, dimmer switch, metal legs",
        categories={
            "Living Room": Category(
                "Oak, Velvet, Fabric, Corner, Folding",
                "Sofas: sofa, couch, settee; Coffee Tables: coffee table, side table; Armchairs: "
                "armchair, easy chair; Bookcases: bookcase, bookshelf, shelf; TV Stands: TV "
                "stand, TV cabinet, stand",
            ),
            "Bedroom": Category(
                "Double, Single, King-Size, Kids', Hypoallergenic",
                "Beds: bed, bed frame; Mattresses: mattress; Duvets: duvet, quilt; Pillows: "
                "pillow, cushion; Bed Linen: bed linen, duvet cover, bedding; Wardrobes: wardrobe",
            ),
            "Lighting": Category(
                "LED, Smart, Outdoor, Bedside, Rechargeable",
                "Table Lamps: table lamp, desk lamp, lamp; Floor Lamps: floor lamp, standing "
                "lamp; Ceiling Lights: ceiling light, lamp; String Lights: string lights, fairy "
                "lights; Bulbs: bulb, light bulb",
            ),
            "Decoration": Category(
                "Handmade, Wall, Glass, Wooden, Large",
                "Vases: vase; Picture Frames: picture frame, photo frame; Candles: candle, "
                "scented candle; Mirrors: mirror; Clocks: clock, wall clock; Rugs: rug, carpet, "
                "mat; Curtains: curtain, drapes",
            ),
            "Bathroom": Category(
                "Cotton, Bamboo, Chrome, Quick-Dry, Non-Slip",
                "Towels: towel, bath towel; Bath Mats: bath mat, mat; Shower Curtains: shower "
                "curtain; Soap Dispensers: soap dispenser; Toilet Brushes: toilet brush, brush",
            ),
        },
    ),
    "Beauty": Department(
        styles="Vegan, Organic, Travel-Size, Sensitive, Luxury, Refill",
        sizes="50 ml, 100 ml, 200 ml, 30 g, pack of 3, pack of 2",
        extras="vitamin C, hyaluronic acid, aloe vera, argan oil, gift bag",
        categories={
            "Skin Care": Category(
                "Hydrating, Anti-Ageing, Men's, Brightening, Fragrance-Free",
                "Face Creams: face cream, moisturiser; Serums: serum, face serum; Cleansers: "
                "cleanser, face wash; Sunscreens: sunscreen, sun cream; Face Masks: face mask, "
                "sheet mask; Body Lotions: body lotion, body milk",
            ),
            "Hair Care": Category(
                "Volume, Anti-Dandruff, Colour, Curl, Kids'",
                "Shampoos: shampoo; Conditioners: conditioner, hair balm; Hair Oils: hair oil; "
                "Hair Dryers: hair dryer, blow dryer; Hair Brushes: hair brush, brush, comb; Hair "
                "Straighteners: hair straightener, flat iron",
            ),
            "Make-up": Category(
                "Matte, Waterproof, Long-Lasting, Mineral, Glossy",
                "Lipsticks: lipstick, lip colour; Mascaras: mascara; Foundations: foundation, "
                "concealer; Eyeshadows: eyeshadow, eye palette; Nail Polish: nail polish, nail "
                "varnish; Make-up Brushes: make-up brush, brush set",
            ),
            "Fragrance": Category(
                "Women's, Men's, Floral, Woody, Fresh",
                "Perfumes: perfume, eau de parfum; Body Sprays: body spray, deodorant; Colognes: "
                "cologne, eau de toilette; Home Fragrances: room spray, diffuser",
            ),
            "Shaving": Category(
                "Electric, Wet, Women's, Cordless, Precision",
                "Razors: razor, shaver; Shaving Creams: shaving cream, shaving foam; Trimmers: "
                "trimmer, beard trimmer; Aftershaves: aftershave, balm; Blades: razor blades",
            ),
        },
    ),
    "Sports": Department(
        styles="Training, Competition, Beginner, Foldable, Heavy-Duty, Lightweight",
        sizes="5 kg, 10 kg, size 5, 2 person, 26 inch, 28 inch, 60 L, 180 cm",
        extras="carry bag, hand pump, repair kit, training plan, reflective strips",
        categories={
            "Fitness": Category(
                "Adjustable, Home, Rubber, Cast Iron, Yoga",
                "Dumbbells: dumbbell, weights; Exercise Mats: exercise mat, yoga mat, mat; "
                "Resistance Bands: resistance band, band; Kettlebells: kettlebell; Exercise "
                "Bikes: exercise bike; Treadmills: treadmill; Skipping Ropes: skipping rope",
            ),
            "Camping": Category(
                "Waterproof, Ultralight, Family, Winter, Inflatable",
                "Tents: tent; Sleeping Bags: sleeping bag; Backpacks: backpack, rucksack, bag; "
                "Camping Stoves: camping stove, cooker; Head Torches: head torch, lamp; Camping "
                "Chairs: camping chair, folding chair",
            ),
            "Cycling": Category(
                "Road, Mountain, City, Kids', Electric",
                "Bicycles: bicycle, bike; Helmets: helmet, bike helmet; Bike Lights: bike light, "
                "light set; Bike Locks: bike lock, lock; Bike Pumps: bike pump, pump; Cycling "
                "Gloves: cycling gloves, gloves; Saddles: saddle, seat",
            ),
            "Ball Sports": Category(
                "Outdoor, Indoor, Junior, Official, Club",
                "Footballs: football, ball; Basketballs: basketball, ball; Tennis Rackets: tennis "
                "racket, racket; Volleyballs: volleyball, ball; Goals: goal, goal net; "
                "Goalkeeper Gloves: goalkeeper gloves, gloves",
            ),
            "Water Sports": Category(
                "Adult, Kids', Inflatable, Neoprene, Anti-Fog",
                "Swimming Goggles: swimming goggles, goggles; Wetsuits: wetsuit; Swim Caps: swim "
                "cap, cap; Kayaks: kayak, canoe; Paddles: paddle; Life Jackets: life jacket, vest",
            ),
        },
    ),
    "Toys & Baby": Department(
        styles="Educational, Musical, Giant, Mini, Eco, Classic",
        sizes="100 pieces, 500 pieces, 30 cm, 3+ years, 6+ years, 12 months",
        extras="storage box, batteries, sound effects, sticker sheet, parents' guide",
        categories={
            "Building Toys": Category(
                "Wooden, Magnetic, Plastic, City, Space",
                "Building Blocks: building blocks, blocks; Train Sets: train set, railway; "
                "Marble Runs: marble run; Model Kits: model kit; Toy Cars: toy car, car, racer",
            ),
            "Dolls & Soft Toys": Category(
                "Plush, Talking, Interactive, Knitted, Collectable",
                "Dolls: doll; Teddy Bears: teddy bear, bear; Action Figures: action figure, "
                "figure; Doll Houses: doll house; Hand Puppets: hand puppet, puppet",
            ),
            "Games & Puzzles": Category(
                "Family, Travel, Party, Kids', Cooperative",
                "Board Games: board game, game; Jigsaw Puzzles: jigsaw puzzle, puzzle; Card "
                "Games: card game, cards; Dice Games: dice game; Chess Sets: chess set, chess",
            ),
            "Nursery": Category(
                "Newborn, Organic, Travel, Twin, Convertible",
                "Cots: cot, baby bed; Pushchairs: pushchair, stroller, buggy; Baby Bottles: baby "
                "bottle, bottle; Nappies: nappies, diapers; Baby Blankets: baby blanket, "
                "blanket; Car Seats: car seat, child seat; Baby Monitors: baby monitor, monitor",
            ),
            "Outdoor Play": Category(
                "Garden, Foldable, Inflatable, Metal, Water",
                "Swings: swing; Slides: slide; Paddling Pools: paddling pool, pool; Scooters: "
                "scooter, kick scooter; Sandpits: sandpit, sand box; Kites: kite; Trampolines: "
                "trampoline",
            ),
        },
    ),
    "Tools & Garden": Department(
        styles="Heavy-Duty, Compact, Professional, Ergonomic, Long-Handled, Multi-Purpose",
        sizes="18 V, 12 V, 5 m, 15 m, 2.5 L, 30 pieces, 200 mm",
        extras="spare battery, tool bag, drill bits, extension pole, wall hook",
        categories={
            "Hand Tools": Category(
                "Steel, Insulated, Precision, Magnetic, Wooden",
                "Screwdrivers: screwdriver; Hammers: hammer, mallet; Pliers: pliers; Spanners: "
                "spanner, wrench; Saws: saw, hand saw; Tape Measures: tape measure; Tool Sets: "
                "tool set, tool kit",
            ),
            "Power Tools": Category(
                "Cordless, Electric, Brushless, Bench, Pneumatic",
                "Drills: drill, power drill; Sanders: sander; Circular Saws: circular saw, saw; "
                "Grinders: grinder, angle grinder; Glue Guns: glue gun; Heat Guns: heat gun",
            ),
            "Gardening": Category(
                "Outdoor, Telescopic, Terracotta, Organic, Raised",
                "Plant Pots: plant pot, planter; Secateurs: secateurs, pruning shears; Garden "
                "Hoses: garden hose, hose; Seeds: seeds, seed mix; Lawn Mowers: lawn mower, "
                "mower; Garden Gloves: garden gloves, gloves; Watering Cans: watering can",
            ),
            "Paint & Hardware": Category(
                "Indoor, Outdoor, Water-Based, Brass, Galvanised",
                "Paints: paint, wall paint; Paint Brushes: paint brush, brush; Paint Rollers: "
                "paint roller, roller; Door Handles: door handle, handle; Screws: screws; "
                "Padlocks: padlock, lock; Ladders: ladder, step ladder",
            ),
            "Cleaning": Category(
                "Cordless, Microfibre, Robot, Steam, Biodegradable",
                "Vacuum Cleaners: vacuum cleaner, vacuum, hoover; Mops: mop; Brooms: broom, "
                "brush; Cleaning Cloths: cleaning cloth, cloth; Detergents: detergent, cleaner; "
                "Bin Bags: bin bags, bags",
            ),
        },
    ),
    "Pets": Department(
        styles="Large, Small, Luxury, Washable, Natural, Travel",
        sizes="2 kg, 10 kg, 400 g, size S, size L, 1.2 m, 60 L, pack of 12",
        extras="removable cover, training clicker, catnip, feeding scoop, name tag",
        categories={
            "Dogs": Category(
                "Puppy, Grain-Free, Reflective, Senior, Orthopaedic",
                "Dog Food: dog food, kibble; Dog Leads: dog lead, leash; Dog Beds: dog bed, bed, "
                "cushion; Collars: dog collar, collar; Dog Toys: dog toy, chew toy, ball; Dog "
                "Coats: dog coat, jacket; Dog Shampoos: dog shampoo, shampoo",
            ),
            "Cats": Category(
                "Kitten, Indoor, Senior, Grain-Free, Interactive",
                "Cat Food: cat food, wet food; Cat Litter: cat litter, litter; Scratching Posts: "
                "scratching post, cat tree; Cat Toys: cat toy, mouse, feather wand; Cat "
                "Carriers: cat carrier, carrier, bag; Litter Trays: litter tray, tray",
            ),
            "Aquariums": Category(
                "Freshwater, Marine, LED, Nano, Automatic",
                "Fish Tanks: fish tank, aquarium; Fish Food: fish food, flakes; Filters: aquarium "
                "filter, filter, pump; Aquarium Lights: aquarium light, lamp; Gravel: gravel",
            ),
            "Birds": Category(
                "Garden, Indoor, Parrot, Wooden, Hanging",
                "Bird Food: bird food, seeds, seed mix; Bird Cages: bird cage, cage; Bird "
                "Feeders: bird feeder, feeder; Nest Boxes: nest box, bird house; Perches: perch",
            ),
            "Small Animals": Category(
                "Rabbit, Hamster, Guinea Pig, Outdoor, Wooden",
                "Hutches: hutch, cage; Hay: hay; Exercise Wheels: exercise wheel, wheel; Feeding "
                "Bowls: feeding bowl, bowl; Bedding: bedding, wood shavings; Small Animal Food: "
                "pellets, muesli",
            ),
        },
    ),
}

COLOURS = (
    "black, white, grey, navy, red, blue, green, silver, beige, pink, brown, gold, copper, teal, "
    "yellow, purple, cream, orange, charcoal, olive"
)

# Brand names: a stem and an ending, or two words.
BRAND_STEMS = (
    "Bram, Cald, Dren, Eld, Fenn, Glav, Hask, Ild, Jund, Kest, Lorv, Morv, Nev, Ostr, Pald, Quen, "
    "Rusk, Selv, Tarn, Ulv, Vand, Wex, Yarr, Zem"
)
BRAND_ENDINGS = "ova, ix, quist, andor, ette, umo, ara, elo"
BRAND_FIRST_WORDS = "Copper, Silver, North, Little, Green, Urban, Pure, Old"
BRAND_SECOND_WORDS = "Fox, Heron, Pine, Harbour, Lantern, Otter, Meadow, Finch"
